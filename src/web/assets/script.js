// Keeps a page live: hears of changes, reads the page again, and takes over what differs. Without it everything is there
// but that.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const live = document.getElementById("live");
  let reading = false, again = false, wait = 1000, source;
  // How far this machine's clock is ahead of the server's.
  const ahead = (page) => {
    const now = page.querySelector("#live time");
    return now ? Date.now() - Date.parse(now.dateTime) : 0;
  };
  let off = ahead(document);

  const say = (text) => { if (live.textContent !== text) live.textContent = text; };

  // What somebody is just using stays as it is: what is typed, what is open, where the keyboard is.
  const busy = () => {
    const at = document.activeElement;
    return at && main().contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
  };

  // How an element is found again: a link by where it leads, others by what they are.
  const signOf = (element) => element.getAttribute("href") || `${element.tagName} ${element.className}`;
  const focusable = () => [...main().querySelectorAll("a, button, input, select, summary, [tabindex]")];

  const takeOver = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const next = page.getElementById("main");
    if (!next) return;
    const at = document.activeElement;
    const focus = at && at !== main() && main().contains(at) ? signOf(at) : null;
    const nth = focus ? focusable().filter((one) => signOf(one) === focus).indexOf(at) : 0;
    const open = [...main().querySelectorAll("details")].map((one) => one.open);
    next.querySelectorAll("details").forEach((one, index) => { if (index in open) one.open = open[index]; });
    const scrolled = [...main().querySelectorAll(".wide")].map((one) => one.scrollLeft);
    main().replaceChildren(...next.childNodes);
    main().querySelectorAll(".wide").forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
    if (focus) {
      const found = focusable().filter((one) => signOf(one) === focus);
      (found[nth] || found[0] || main()).focus({ preventScroll: true });
    }
    off = ahead(page);
    document.title = page.title;
    const icon = page.querySelector("link[rel=icon]");
    const own = document.querySelector("link[rel=icon]");
    if (icon && own && own.getAttribute("href") !== icon.getAttribute("href")) own.setAttribute("href", icon.getAttribute("href"));
    buttons();
    times();
  };

  const read = async () => {
    if (reading || busy()) { again = true; return; }
    reading = true;
    again = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(20000) });
      const text = await answer.text();
      if (!busy()) takeOver(text); else again = true;
      say("live");
    } catch {
      say("not reached, trying again");
    }
    reading = false;
  };

  const listen = () => {
    source = new EventSource("/events");
    source.addEventListener("hello", () => { wait = 1000; say("live"); read(); });
    source.addEventListener("change", read);
    source.addEventListener("error", () => {
      say("not connected, trying again");
      // The browser tries again by itself, unless it was refused.
      if (source.readyState === EventSource.CLOSED) {
        setTimeout(listen, wait);
        wait = Math.min(wait * 2, 60000);
      }
    });
  };

  const lasted = (seconds) => {
    if (seconds < 120) return `${seconds}s`;
    if (seconds < 10800) return `${Math.floor(seconds / 60)}m`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
    return `${Math.floor(seconds / 86400)}d`;
  };

  // Only what is past.
  const times = () => {
    document.querySelectorAll("time").forEach((one) => {
      if (!one.textContent.endsWith("ago") && one.textContent !== "now") return;
      const seconds = Math.floor((Date.now() - off - Date.parse(one.dateTime)) / 1000);
      const text = seconds < 1 ? "now" : `${lasted(seconds)} ago`;
      if (one.textContent !== text) one.textContent = text;
    });
  };

  const buttons = () => {
    if (!navigator.clipboard) return;
    document.querySelectorAll("button.copy").forEach((button) => { button.hidden = false; });
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest && event.target.closest("button.copy");
    if (!button) return;
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    button.firstChild.textContent = "Copied";
    setTimeout(() => { button.firstChild.textContent = "Copy"; }, 2000);
  });
  document.addEventListener("focusout", () => setTimeout(() => { if (again) read(); }, 0));
  buttons();
  setInterval(times, 10000);
  listen();
})();
