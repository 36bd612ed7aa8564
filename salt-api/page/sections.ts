/** The sections of the status page, each of which can be sent anew. */
import { createHash } from 'node:crypto';
import type { Denial, JobProgress, KeyInfo } from '../../master/index.ts';
import { chart } from './chart.ts';
import type { MinionSince } from './history.ts';
import { type Html, html } from './html.ts';
import type { Overview } from './overview.ts';
import { onceForEach } from './shared.ts';

/** Where forms and links of the page lead. */
export interface Places {
  /** The path of the page, `/status` behind the prefix. */
  readonly base: string;
  /** What forms bring back, so that nobody else's page can send them. */
  readonly formToken: string;
}

/** Minions and keys that are listed by name. */
const maxListed = 200;

/** By their ids, in the order of the page. */
export function sections(overview: Overview, places: Places): ReadonlyMap<string, Html> {
  const { minions, jobs, pending, denials, rates } = overview;
  const found = new Map<string, Html>([
    ['master', masterSection(overview)],
    [
      'rates',
      html`<h2>Rates</h2><div class="charts">${rates.map((it) => chart(it.title, it.values))}</div>`,
    ],
  ]);
  if (pending !== undefined) found.set('keys', keysSection(pending, places));
  if (jobs !== undefined) found.set('jobs', jobsSection(jobs));
  if (minions !== undefined) found.set('minions', minionsSection(minions));
  found.set('denials', denialsSection(denials, places));
  return found;
}

function masterSection({ status }: Overview): Html {
  const { id, version, startedAt, keys, transports, subscribers, aclMode } = status;
  const warnings = [
    ...(status.storeFull ? ['The disk of the store is full: nothing new is kept.'] : []),
    ...(status.auditFull ? ['The audit log cannot be written.'] : []),
    ...(aclMode === 'learn'
      ? ['The policy only learns: minions may do what no rule permits.']
      : []),
  ];
  const served = transports.map((it) => `${it.transport} ${it.publishPort}/${it.requestPort}`);
  return html`<h2>Master</h2>
${warnings.map((text) => html`<p class="bad" role="alert">${text}</p>`)}
<dl><dt>Id</dt><dd>${id}</dd><dt>Version</dt><dd>saltbridge ${version}</dd>
<dt>Up since</dt><dd>${moment(startedAt)}</dd>
<dt>Transports</dt><dd>${served.join(', ')}; ${subscribers} connections</dd>
<dt>Keys</dt><dd>${keys.accepted} accepted, ${keys.pending} pending, ${keys.rejected} rejected, ${keys.denied} denied</dd></dl>`;
}

function keysSection(
  { keys, mayAccept, mayReject }: NonNullable<Overview['pending']>,
  places: Places,
): Html {
  const rows = keys.slice(0, maxListed).map((key) => {
    return html`<tr><th scope="row">${key.id}</th><td><code>${key.fingerprint}</code></td><td>${remarks(key)}</td>
<td>${mayAccept ? decision('accept', key, places) : undefined}${mayReject ? decision('reject', key, places) : undefined}</td></tr>`;
  });
  const table = html`<div class="wide"><table><thead><tr><th scope="col">Minion</th><th scope="col">Fingerprint</th><th scope="col">Remarks</th><th scope="col">Decision</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;
  return html`<h2>Pending keys (${keys.length})</h2>
${keys.length === 0 ? html`<p>None waits.</p>` : html`<p>Compare with <code>salt-call --local key.finger</code> on the minion.</p>${table}`}`;
}

/** What may make somebody take this machine for another one. */
function remarks({ alike, sharedWith, isUnusual }: KeyInfo): string {
  const texts = [
    ...(isUnusual ? ['unusual id'] : []),
    ...(alike ? [`looks like ${alike.slice(0, 3).join(', ')}`] : []),
    ...(sharedWith ? [`same key as ${sharedWith.slice(0, 3).join(', ')}`] : []),
  ];
  return texts.join('; ');
}

/** Names the key itself: another one under the same id is not touched by it. */
function decision(action: 'accept' | 'reject', { id, fingerprint }: KeyInfo, places: Places): Html {
  const mark = createHash('sha256').update(`${id} ${fingerprint}`).digest('hex').slice(0, 16);
  return html`<form method="post" action="${places.base}/keys"><input type="hidden" name="form" value="${places.formToken}"><input type="hidden" name="id" value="${id}"><input type="hidden" name="fingerprint" value="${fingerprint}"><button id="${action}-${mark}" name="action" value="${action}" aria-label="${action} the key of ${id}">${action}</button></form>`;
}

function jobsSection(jobs: readonly JobProgress[]): Html {
  const rows = jobs.map(({ jid, fun, minions, answered, publishedAt }) => {
    const name = typeof fun === 'string' ? fun : fun.join(', ');
    return html`<tr><th scope="row">${jid}</th><td>${name}</td><td>${moment(publishedAt)}</td>
<td><progress max="${minions}" value="${answered}" aria-label="answers to ${jid}"></progress> ${answered} of ${minions}</td></tr>`;
  });
  const table = html`<div class="wide"><table><thead><tr><th scope="col">Job</th><th scope="col">Function</th><th scope="col">Since</th><th scope="col">Answers</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;
  return html`<h2>Running jobs (${jobs.length})</h2>${jobs.length === 0 ? html`<p>None.</p>` : table}`;
}

/** The same for all who look at the same time. */
const minionsSection = onceForEach((minions: readonly MinionSince[]): Html => {
  const there = minions.filter(({ isPresent }) => isPresent);
  const away = minions.filter(({ isPresent }) => !isPresent);
  return html`<h2>Minions</h2><p><b>${there.length}</b> listen, <b class="${away.length === 0 ? 'good' : 'bad'}">${away.length}</b> do not.</p>
${away.length === 0 ? undefined : minionTable('Not listening', away)}
${there.length === 0 ? undefined : html`<details id="listening"><summary>Listening</summary>${minionTable('Listening', there)}</details>`}`;
});

function minionTable(title: string, minions: readonly MinionSince[]): Html {
  const rows = minions.slice(0, maxListed).map(({ id, since, heardAt }) => {
    return html`<tr><th scope="row">${id}</th><td>${since === undefined ? 'before this page began to look' : moment(since)}</td>
<td>${heardAt === undefined ? 'not since the start' : moment(heardAt)}</td></tr>`;
  });
  const left = minions.length - rows.length;
  return html`<div class="wide"><table><caption>${title}</caption><thead><tr><th scope="col">Minion</th><th scope="col">Since</th><th scope="col">Last request</th></tr></thead>
<tbody>${rows}</tbody></table></div>${left > 0 ? html`<p>And ${left} more.</p>` : undefined}`;
}

function denialsSection(denials: readonly Denial[], { base }: Places): Html {
  const rows = denials.map(({ minion, tag, reason, count, lastAt }) => {
    const query = new URLSearchParams({ minion, tag });
    return html`<tr><th scope="row">${minion}</th><td><code>${tag}</code></td><td>${count}</td><td>${moment(lastAt)}</td>
<td>${reason} <a href="${base}/explain?${query.toString()}" aria-label="explain why ${tag} of ${minion} was denied">explain</a></td></tr>`;
  });
  const table = html`<div class="wide"><table><thead><tr><th scope="col">Minion</th><th scope="col">Tag</th><th scope="col">Times</th><th scope="col">Last</th><th scope="col">Why</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;
  return html`<h2>Denied signals (${denials.length})</h2>${denials.length === 0 ? html`<p>None.</p>` : table}`;
}

/** UTC; the script turns it into the reader's own time. */
function moment(at: number): Html {
  const text = new Date(at).toISOString();
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')} UTC</time>`;
}
