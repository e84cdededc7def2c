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

  // How an element is found again: a link by where it leads, others by what they are.
  const signOf = (element) => element.getAttribute("href") || `${element.tagName} ${element.className}`;
  const focusable = () => [...main().querySelectorAll("a, button, input, select, summary, [tabindex]")];

  const filterOf = (page) => page.querySelector(":scope > form.filter");

  // What somebody types into stays as it is: all but that form is replaced.
  const replace = (next) => {
    const form = filterOf(main()), other = filterOf(next);
    if (!form || !other || !form.contains(document.activeElement)) { main().replaceChildren(...next.childNodes); return; }
    const count = form.querySelector(".count");
    if (count) count.textContent = other.querySelector(".count").textContent;
    [...main().childNodes].forEach((one) => { if (one !== form) one.remove(); });
    const nodes = [...next.childNodes], at = nodes.indexOf(other);
    form.before(...nodes.slice(0, at));
    form.after(...nodes.slice(at + 1));
  };

  const takeOver = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const next = page.getElementById("main");
    if (!next) return;
    const at = document.activeElement;
    const focus = at && at !== main() && main().contains(at) ? signOf(at) : null;
    const nth = focus ? focusable().filter((one) => signOf(one) === focus).indexOf(at) : 0;
    const open = new Map([...main().querySelectorAll("details")].map((one, nth) => [one.dataset.of || nth, one.open]));
    next.querySelectorAll("details").forEach((one, nth) => { one.open = open.get(one.dataset.of || nth) ?? one.open; });
    const scrolled = [...main().querySelectorAll(".wide")].map((one) => one.scrollLeft);
    replace(next);
    main().querySelectorAll(".wide").forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
    if (focus && document.activeElement !== at) {
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
    if (reading) { again = true; return; }
    reading = true;
    do {
      again = false;
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(20000) });
        takeOver(await answer.text());
        say("live");
      } catch {
        say("not reached, trying again");
      }
    } while (again);
    reading = false;
  };

  // A filter works while one types: its address is the page's, and that is read again.
  let typed;
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (!form || !form.matches(".filter")) return;
    clearTimeout(typed);
    typed = setTimeout(() => {
      const asked = [...new FormData(form)].filter(([, value]) => value !== "");
      const query = new URLSearchParams(asked).toString();
      history.replaceState(null, "", form.getAttribute("action") + (query && `?${query}`));
      read();
    }, 150);
  });

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
    if (seconds < 120) return `${seconds} s`;
    if (seconds < 10800) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} days`;
  };

  // Times of day, which the server writes in UTC, in the reader's time zone and the same form. The title has both.
  const formed = (at, options) => new Intl.DateTimeFormat("en-US", { hourCycle: "h23", ...options }).format(at);
  const exact = new Intl.DateTimeFormat("en-US", { hourCycle: "h23", dateStyle: "medium", timeStyle: "long" });
  const timeOfDay = (at, now) => {
    const clock = formed(at, { hour: "2-digit", minute: "2-digit" });
    const day = (time) => formed(time, { year: "numeric", month: "2-digit", day: "2-digit" });
    if (day(at) === day(now)) return clock;
    const date = `${formed(at, { day: "numeric" })} ${formed(at, { month: "short" })}`;
    return at.getFullYear() === now.getFullYear()
      ? `${formed(at, { weekday: "short" })} ${date} ${clock}` : `${date} ${at.getFullYear()} ${clock}`;
  };
  const localTimes = () => {
    document.querySelectorAll("time:not([data-utc])").forEach((one) => {
      const at = new Date(one.dateTime);
      const utc = one.dataset.utc = `${one.dateTime.replace("T", " ").replace("Z", "")} UTC`;
      const own = exact.format(at);
      one.title = `${own} (${utc})`;
      const said = one.textContent;
      one.textContent = /\d\d:\d\d$/.test(said) ? timeOfDay(at, new Date(Date.now() - off))
        : said.replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/, own);
    });
  };

  // Only what is past.
  const times = () => {
    localTimes();
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
  buttons();
  times();
  setInterval(times, 10000);
  listen();
})();
