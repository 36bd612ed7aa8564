/** Section of the sites of a centre, and the page of one site. */

import type { JoinedSite, SiteDetails } from '#master';
import { type Html, html } from './html.ts';
import { memoizeByObject } from './overview.ts';
import { timeElement } from './time-element.ts';

/** Maximum number of sites in a table. */
const maxListed = 200;

/**
 * Texts about the time since a site last contacted the centre, by age class (`recent`, `hour` and
 * so on). The page shows them in this order.
 */
const ageTexts: ReadonlyMap<string, string> = new Map([
  ['recent', 'at most 10 minutes'],
  ['hour', 'at most an hour'],
  ['day', 'at most a day'],
  ['week', 'at most a week'],
  ['older', 'more than a week'],
  ['never', 'never connected'],
]);

/**
 * Order of sites in the table: the sites that have been without contact for the longest time come
 * first.
 */
const oldestFirst: readonly string[] = [...ageTexts.keys()].reverse();

/**
 * Returns the section of the sites. It is rendered once for all readers.
 * @param base - path of the status page
 */
export function sitesSection(sites: readonly JoinedSite[], base: string): Html {
  return sectionOf(sites)(base);
}

const sectionOf = memoizeByObject((sites: readonly JoinedSite[]) => {
  let made: { readonly base: string; readonly section: Html } | undefined;
  return (base: string): Html => {
    if (made?.base !== base) made = { base, section: renderSites(sites, base) };
    return made.section;
  };
});

function renderSites(sites: readonly JoinedSite[], base: string): Html {
  const sorted = sites.toSorted(
    (a, b) => oldestFirst.indexOf(a.contactAge) - oldestFirst.indexOf(b.contactAge),
  );
  const isGood = (site: JoinedSite): boolean =>
    site.contactAge === 'recent' && !['refused', 'behind'].includes(site.release?.progress ?? '');
  const good = sorted.filter(isGood);
  const others = sorted.filter((site) => !isGood(site));
  const ages = countBy(sites, ({ contactAge }) => contactAge);
  const byAge = [...ageTexts].flatMap(([age, text]) =>
    ages.has(age) ? [`${ages.get(age)} ${text}`] : [],
  );
  const byVersion = countTexts(sites, ({ version }) => version ?? 'unknown');
  const byRelease = countTexts(sites, ({ release }) => releaseText(release));
  return html`<h2>Sites (${sites.length})</h2>
<dl><dt>Last contact</dt><dd>${byAge.join(', ')}</dd>
<dt>Versions</dt><dd>${byVersion}</dd>
<dt>Releases</dt><dd>${byRelease}</dd></dl>
${others.length === 0 ? undefined : siteTable('Away, behind or refusing', others, base)}
${good.length === 0 ? undefined : html`<details id="good-sites"><summary>In contact</summary>${siteTable('In contact', good, base)}</details>`}`;
}

function siteTable(title: string, sites: readonly JoinedSite[], base: string): Html {
  const rows = sites.slice(0, maxListed).map((site) => {
    const { name, isConnected, lastContactAt, version, release } = site;
    const query = new URLSearchParams({ name });
    const contact = isConnected ? html`connected` : timeOr('never', lastContactAt);
    return html`<tr><th scope="row"><a href="${base}/site?${query.toString()}">${name}</a></th><td>${contact}</td><td>${version ?? 'unknown'}</td>
<td>${releaseText(release)}${release === undefined ? undefined : html`, as of ${timeElement(release.at)}`}</td></tr>`;
  });
  const left = sites.length - rows.length;
  return html`<div class="wide"><table><caption>${title}</caption><thead><tr><th scope="col">Site</th><th scope="col">Last contact</th><th scope="col">Version</th><th scope="col">Release</th></tr></thead>
<tbody>${rows}</tbody></table></div>${left > 0 ? html`<p>And ${left} more.</p>` : undefined}`;
}

/** Returns the content of the page about one site. */
export function siteContent(site: SiteDetails, base: string): Html {
  const { name, state, isConnected, lastContactAt, joinedAt, version, address } = site;
  const { clockDifferenceMs, release, minions, log, waitingOrders } = site;
  const asOfContact = html`, as of ${timeOr('never', lastContactAt)}`;
  const asOf = lastContactAt === undefined ? undefined : asOfContact;
  const failed = release?.failed;
  const classes = Object.entries(log).map(
    ([each, { sequence, ms, dropped, refused }]) =>
      html`<tr><th scope="row">${each}</th><td>${sequence}</td><td>${timeElement(ms)}</td><td>${dropped}</td><td>${refused}</td></tr>`,
  );
  return html`<main><p><a href="${base}">Back</a></p><h1>Site ${name}</h1>
<section><h2>State</h2><dl><dt>State</dt><dd>${state}</dd>
<dt>Joined</dt><dd>${timeOr('not yet', joinedAt)}</dd>
<dt>Last contact</dt><dd>${isConnected ? html`connected, last message ${timeOr('never', lastContactAt)}` : timeOr('never', lastContactAt)}</dd>
<dt>Version</dt><dd>${version ?? 'unknown'}${asOf}</dd>
<dt>Address</dt><dd>${address ?? 'unknown'}${asOf}</dd>
<dt>Clock</dt><dd>${clockDifferenceMs === undefined ? 'unknown' : `${Math.round(clockDifferenceMs)} ms ahead of this centre`}${asOf}</dd>
<dt>Release</dt><dd>${releaseText(release)}${release === undefined ? undefined : html`, as of ${timeElement(release.at)}`}</dd>
${failed === undefined ? undefined : html`<dt>Refused release</dt><dd class="bad">${failed.version}: ${failed.code} ${failed.message}</dd>`}
<dt>Minions</dt><dd>${minions.present} present, ${minions.absent} absent${minions.latestAt === undefined ? undefined : html`, as of ${timeElement(minions.latestAt)}`}</dd>
<dt>Oldest facts</dt><dd>${timeOr('none', minions.oldestAt)}</dd>
<dt>Orders</dt><dd>${waitingOrders} wait for the site</dd></dl></section>
<section><h2>Log</h2>${
    classes.length === 0
      ? html`<p>No entries have arrived.</p>`
      : html`<div class="wide"><table><thead><tr><th scope="col">Class</th><th scope="col">Entries</th><th scope="col">As of</th><th scope="col">Dropped</th><th scope="col">Refused</th></tr></thead>
<tbody>${classes}</tbody></table></div>`
  }</section></main>`;
}

function timeOr(otherwise: string, at: number | undefined): Html {
  return at === undefined ? html`${otherwise}` : timeElement(at);
}

function releaseText(release: JoinedSite['release']): string {
  if (release === undefined) return 'not reported';
  const { version, progress } = release;
  const name = version === 0 ? 'none' : String(version);
  return progress === undefined || progress === 'current' ? name : `${name} (${progress})`;
}

function countBy<T>(items: readonly T[], kindOf: (item: T) => string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(kindOf(item), (counts.get(kindOf(item)) ?? 0) + 1);
  return counts;
}

/** Returns the number of items of each kind as text. The most frequent kinds come first. */
function countTexts<T>(items: readonly T[], kindOf: (item: T) => string): string {
  const sorted = [...countBy(items, kindOf)].sort((a, b) => b[1] - a[1]);
  return sorted
    .slice(0, 20)
    .map(([kind, count]) => `${kind}: ${count}`)
    .join(', ');
}
