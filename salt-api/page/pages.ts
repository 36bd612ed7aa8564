/** The pages: status, log-in, and the explanation of a denied signal. */

import type { Explanation } from '#acl';
import type { Denial, SiteDetails } from '#master';
import { type Html, html } from './html.ts';
import type { Overview } from './overview.ts';
import { type PageLinks, renderSections } from './sections.ts';
import { siteContent } from './sites.ts';

/**
 * Returns the status page with everything that the user may read.
 * @param notice - message about the form that was sent last
 */
export function statusPage(overview: Overview, places: PageLinks, notice?: string): Html {
  const all = [...renderSections(overview, places)].map(
    ([id, content]) => html`<section id="${id}">${content}</section>\n`,
  );
  const { base, formToken } = places;
  const head = html`<header><h1>${overview.status.id}</h1>
<p>${overview.user} <span id="live" role="status">not live</span></p>
<form method="post" action="${base}/logout"><input type="hidden" name="form" value="${formToken}"><button>Log out</button></form></header>`;
  const message =
    notice === undefined ? undefined : html`<p class="notice" role="status">${notice}</p>`;
  const script = html`<script src="${base}/script.js" data-stream="${base}/stream" defer></script>`;
  return renderDocument(
    base,
    `${overview.status.id} – status`,
    html`${head}<main>${message}\n${all}</main>${script}`,
  );
}

/**
 * Returns the log-in page.
 * @param eauths - names of the eauth back ends to offer
 */
export function loginPage(base: string, eauths: readonly string[], problem?: string): Html {
  const notice =
    problem === undefined ? undefined : html`<p class="bad" role="alert">${problem}</p>`;
  const options = eauths.map((name) => html`<option>${name}</option>`);
  const eauth =
    eauths.length === 0
      ? html`<input name="eauth" value="pam" required>`
      : html`<select name="eauth">${options}</select>`;
  return renderDocument(
    base,
    'Log in',
    html`<main class="login"><h1>Log in</h1>${notice}
<form method="post" action="${base}/login">
<label>User <input name="username" autocomplete="username" required autofocus></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<label>By ${eauth}</label>
<button>Log in</button></form></main>`,
  );
}

/** Returns the page that explains why a signal was denied. */
export function explanationPage(
  base: string,
  { denial, explanation }: { readonly denial: Denial; readonly explanation: Explanation },
): Html {
  const { decision, nearest } = explanation;
  const near = nearest.map(
    ({ rule, obstacles }) => html`<li><code>${rule}</code>: ${obstacles.join('; ')}</li>`,
  );
  const rules =
    near.length === 0
      ? html`<p>No other rule comes close to permitting it.</p>`
      : html`<p>These rules would permit the signal if the following did not prevent it:</p><ul>${near}</ul>`;
  return renderDocument(
    base,
    'Why a signal was denied',
    html`<main><p><a href="${base}">Back</a></p><h1>Why a signal was denied</h1>
<p><code>${denial.tag}</code> of ${denial.minion}, ${denial.count} times: ${denial.reason}</p>
<h2>Current policy</h2>
<p>${decision.effect === 'allow' ? 'The signal would now be permitted' : 'The signal would now be denied'} by <code>${decision.rule}</code>: ${decision.reason}</p>
${decision.effect === 'allow' ? undefined : rules}</main>`,
  );
}

/** Returns the page about one site of this centre. */
export function sitePage(base: string, site: SiteDetails): Html {
  return renderDocument(base, `Site ${site.name}`, siteContent(site, base));
}

function renderDocument(base: string, title: string, body: Html): Html {
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="${base}/icon.svg"><link rel="stylesheet" href="${base}/style.css"></head><body>${body}</body></html>`;
}
