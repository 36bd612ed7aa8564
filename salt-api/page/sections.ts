/** Sections of the status page. Each section can be updated separately. */

import { hash } from 'node:crypto';
import type { Denial, KeyInfo, MasterApi } from '#master';
import { formatNames } from '#runtime';
import { type Html, html } from './html.ts';
import { memoizeByObject, type Overview } from './overview.ts';
import { sitesSection } from './sites.ts';
import type { MinionSince } from './status-history.ts';
import { timeElement } from './time-element.ts';

type JobProgress = Awaited<ReturnType<MasterApi['jobs']['active']>>[number];

const chartWidth = 160;
const chartHeight = 32;
/** Maximum number of values that a chart shows. */
const maxChartValues = 60;

/** Returns a line chart of the values. The latest value is at the right. */
function renderChart(title: string, values: readonly number[]): Html {
  const greatest = Math.max(1e-9, ...values);
  const offset = maxChartValues - values.length;
  const points = values.map((value, index) => {
    const x = ((index + offset) / (maxChartValues - 1)) * chartWidth;
    const y = chartHeight - 1 - (value / greatest) * (chartHeight - 2);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const latest = rateText(values.at(-1) ?? 0);
  const label = `${title}: ${latest} per second now, ${rateText(Math.max(0, ...values))} at most`;
  return html`<figure><figcaption>${title} <b>${latest}</b>/s</figcaption>
<svg role="img" aria-label="${label}" viewBox="0 0 ${chartWidth} ${chartHeight}" preserveAspectRatio="none">
<polyline points="${points.join(' ')}"/></svg></figure>`;
}

function rateText(value: number): string {
  return value >= 10 ? String(Math.round(value)) : value.toFixed(1);
}

/** Targets of the forms and links on the page. */
export interface PageLinks {
  /** Path of the page: `rootPrefix` and `/status`. */
  readonly base: string;
  /**
   * Token that each form sends back. A page of another site cannot read it, and can therefore not
   * send a valid form.
   */
  readonly formToken: string;
}

/** Maximum number of minions, and of keys, that are listed by name. */
const maxListed = 200;

/** Returns the sections by id, in the order of the page. */
export function renderSections(overview: Overview, places: PageLinks): ReadonlyMap<string, Html> {
  const { minions, jobs, bridge, pending, denials, rates, sites } = overview;
  const found = new Map<string, Html>([
    ['master', masterSection(overview)],
    [
      'rates',
      html`<h2>Rates</h2><div class="charts">${rates.map((it) => renderChart(it.title, it.values))}</div>`,
    ],
  ]);
  if (pending !== undefined) found.set('keys', keysSection(pending, places));
  if (jobs !== undefined) found.set('jobs', jobsSection(jobs));
  if (bridge !== undefined) found.set('bridge', bridgeSection(bridge));
  if (sites !== undefined) found.set('sites', sitesSection(sites, places.base));
  if (minions !== undefined) found.set('minions', minionsSection(minions));
  found.set('denials', denialsSection(denials, places));
  return found;
}

function masterSection({ status }: Overview): Html {
  const { id, version, startedAt, keys, transports, subscribers, aclMode } = status;
  const warnings = [
    ...(status.storeFull ? ['The disk of the store is full: no new data can be stored.'] : []),
    ...(status.auditFull ? ['The audit log cannot be written.'] : []),
    ...(status.cluster?.isStale
      ? ['This member may have missed changes of the cluster: it rejects minions and tokens.']
      : []),
    ...(status.cluster?.refusesWrites
      ? ['Too few members of the cluster are running: jobs, key changes and signals are rejected.']
      : []),
    ...(status.cluster?.warnings ?? []),
    ...(aclMode === 'learn'
      ? ['The policy is in learning mode: minions may perform actions that no rule permits.']
      : []),
  ];
  const served = transports.map((it) => `${it.transport} ${it.publishPort}/${it.requestPort}`);
  return html`<h2>Master</h2>
${warnings.map((text) => html`<p class="bad" role="alert">${text}</p>`)}
<dl><dt>Id</dt><dd>${id}</dd><dt>Version</dt><dd>saltbridge ${version}</dd>
<dt>Up since</dt><dd>${timeElement(startedAt)}</dd>
<dt>Transports</dt><dd>${served.join(', ')}; ${subscribers} connections</dd>
${clusterOf(status)}<dt>Keys</dt><dd>${keys.accepted} accepted, ${keys.pending} pending, ${keys.rejected} rejected, ${keys.denied} denied</dd></dl>`;
}

function clusterOf({ cluster }: Overview['status']): Html | undefined {
  if (cluster === undefined) return undefined;
  const members = cluster.members.map((it) => `${it.name}${it.isAlive ? '' : ' (not responding)'}`);
  return html`<dt>Cluster</dt><dd>${cluster.name}, this is ${cluster.member}; members ${members.join(', ')}; position ${cluster.position}</dd>
`;
}

function keysSection(
  { keys, mayAccept, mayReject }: NonNullable<Overview['pending']>,
  places: PageLinks,
): Html {
  const rows = keys.slice(0, maxListed).map((key) => {
    return html`<tr><th scope="row">${key.id}</th><td><code>${key.fingerprint}</code></td><td>${remarks(key)}</td>
<td>${mayAccept ? decisionForm('accept', key, places) : undefined}${mayReject ? decisionForm('reject', key, places) : undefined}</td></tr>`;
  });
  const table = html`<div class="wide"><table><thead><tr><th scope="col">Minion</th><th scope="col">Fingerprint</th><th scope="col">Remarks</th><th scope="col">Decision</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;
  return html`<h2>Pending keys (${keys.length})</h2>
${keys.length === 0 ? html`<p>No key is pending.</p>` : html`<p>Compare with <code>salt-call --local key.finger</code> on the minion.</p>${table}`}`;
}

/** Maximum number of other minions that a remark names. */
const maxNamed = 3;

/** Returns remarks about a pending key that may reveal a mix-up of machines. */
function remarks({
  alike,
  alikeCount,
  sharedWith,
  sharedWithCount,
  isInvalid,
  isUnusual,
}: KeyInfo): string {
  const texts = [
    ...(isInvalid ? ['no public key'] : []),
    ...(isUnusual ? ['unusual id'] : []),
    ...(alike ? [`looks like ${formatNames(alike, maxNamed, alikeCount)}`] : []),
    ...(sharedWith ? [`same key as ${formatNames(sharedWith, maxNamed, sharedWithCount)}`] : []),
  ];
  return texts.join('; ');
}

/**
 * Returns the form with which a user accepts or rejects a key. It contains the
 * fingerprint, so that a key that later replaces this one is not affected.
 */
function decisionForm(
  action: 'accept' | 'reject',
  { id, fingerprint }: KeyInfo,
  places: PageLinks,
): Html {
  const mark = hash('sha256', `${id} ${fingerprint}`).slice(0, 16);
  return html`<form method="post" action="${places.base}/keys"><input type="hidden" name="form" value="${places.formToken}"><input type="hidden" name="id" value="${id}"><input type="hidden" name="fingerprint" value="${fingerprint}"><button id="${action}-${mark}" name="action" value="${action}" aria-label="${action} the key of ${id}">${action}</button></form>`;
}

function jobsSection(jobs: readonly JobProgress[]): Html {
  const rows = jobs.map(({ jid, fun, minions, answered, publishedAt }) => {
    const name = typeof fun === 'string' ? fun : fun.join(', ');
    return html`<tr><th scope="row">${jid}</th><td>${name}</td><td>${timeElement(publishedAt)}</td>
<td><progress max="${minions}" value="${answered}" aria-label="answers to ${jid}"></progress> ${answered} of ${minions}</td></tr>`;
  });
  const table = html`<div class="wide"><table><thead><tr><th scope="col">Job</th><th scope="col">Function</th><th scope="col">Since</th><th scope="col">Answers</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;
  return html`<h2>Running jobs (${jobs.length})</h2>${jobs.length === 0 ? html`<p>None.</p>` : table}`;
}

function bridgeSection(figures: Readonly<Record<string, number>>): Html {
  const of = (name: string): number => Math.round(figures[name] ?? 0);
  const dead = of('outbox_signals dead');
  const advice = html`<p class="bad">Some signals could not be delivered. To see why, run <code>saltbridge bridge outbox list --dead</code>. To send them again, run <code>saltbridge bridge outbox retry</code>.</p>`;
  return html`<h2>Bridge</h2>
<dl><dt>Outbox</dt><dd>${of('outbox_signals waiting')} waiting, ${of('outbox_signals held')} held for a handle, <b class="${dead === 0 ? 'good' : 'bad'}">${dead}</b> given up; the first waits for ${of('outbox_oldest_seconds')} s</dd>
<dt>Delivered</dt><dd>${of('outbox_delivered_total')} since the start</dd>
<dt>Runs</dt><dd>${of('command_runs')} of commands, ${of('plan_runs')} of plans</dd>
<dt>Enrolments</dt><dd>${of('enrolments open')} open, ${of('enrolments accepted')} accepted, ${of('enrolments signed-in')} signed in, ${of('enrolments failed')} failed</dd></dl>
${dead === 0 ? undefined : advice}`;
}

/** Returns the section of minions. It is rendered once for all readers. */
const minionsSection = memoizeByObject((minions: readonly MinionSince[]): Html => {
  const there = minions.filter(({ isPresent }) => isPresent);
  const away = minions.filter(({ isPresent }) => !isPresent);
  return html`<h2>Minions</h2><p><b>${there.length}</b> listen, <b class="${away.length === 0 ? 'good' : 'bad'}">${away.length}</b> do not.</p>
${away.length === 0 ? undefined : minionTable('Not listening', away)}
${there.length === 0 ? undefined : html`<details id="listening"><summary>Listening</summary>${minionTable('Listening', there)}</details>`}`;
});

function minionTable(title: string, minions: readonly MinionSince[]): Html {
  const rows = minions.slice(0, maxListed).map(({ id, isUnsure, since, heardAt }) => {
    const doubt =
      isUnsure === true ? ' (uncertain: other minions have the same address)' : undefined;
    return html`<tr><th scope="row">${id}${doubt}</th><td>${since === undefined ? 'unknown (longer than this page measures)' : timeElement(since)}</td>
<td>${heardAt === undefined ? 'none since the start of the master' : timeElement(heardAt)}</td></tr>`;
  });
  const left = minions.length - rows.length;
  return html`<div class="wide"><table><caption>${title}</caption><thead><tr><th scope="col">Minion</th><th scope="col">Since</th><th scope="col">Last request</th></tr></thead>
<tbody>${rows}</tbody></table></div>${left > 0 ? html`<p>And ${left} more.</p>` : undefined}`;
}

function denialsSection(denials: readonly Denial[], { base }: PageLinks): Html {
  const rows = denials.map(({ minion, tag, reason, count, lastAt }) => {
    const query = new URLSearchParams({ minion, tag });
    return html`<tr><th scope="row">${minion}</th><td><code>${tag}</code></td><td>${count}</td><td>${timeElement(lastAt)}</td>
<td>${reason} <a href="${base}/explain?${query.toString()}" aria-label="explain why ${tag} of ${minion} was denied">explain</a></td></tr>`;
  });
  const table = html`<div class="wide"><table><thead><tr><th scope="col">Minion</th><th scope="col">Tag</th><th scope="col">Times</th><th scope="col">Last</th><th scope="col">Why</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;
  return html`<h2>Denied signals (${denials.length})</h2>${denials.length === 0 ? html`<p>None.</p>` : table}`;
}
