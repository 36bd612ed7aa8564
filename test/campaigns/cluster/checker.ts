/** Checks a run only by its histories and the final state of each master. */
import type { Fact, FactOf } from './history.ts';
import type { MemberView } from './view.ts';

/** Period in which members were killed. Records that they had not written yet are missing. */
export interface Death {
  readonly from: number;
  readonly to: number;
}

/**
 * Maximum time for which audit records may be missing before the death of a member, in
 * milliseconds.
 */
const auditMs = 2000;

class Histories {
  readonly #facts = new Map<string, Fact[]>();

  constructor(facts: readonly Fact[]) {
    for (const fact of facts) {
      const same = this.#facts.get(fact.fact) ?? [];
      same.push(fact);
      this.#facts.set(fact.fact, same);
    }
  }

  of<K extends Fact['fact']>(kind: K): readonly FactOf<K>[] {
    // The histories are sorted by their kind above.
    return (this.#facts.get(kind) ?? []) as FactOf<K>[];
  }
}

/**
 * Checks a run.
 * @returns the problems; empty if there are none
 */
export function check(
  facts: readonly Fact[],
  views: readonly MemberView[],
  deaths: readonly Death[],
): string[] {
  const histories = new Histories(facts);
  return [
    ...checkRows(histories),
    ...checkSteps(histories),
    ...checkSignals(histories, views),
    ...checkAudit(histories, views, deaths),
    ...views.flatMap((view) => checkView(histories, view).map((it) => `${view.member}: ${it}`)),
  ];
}

/** Checks that no job ran twice on a minion. */
export function checkRuns(facts: readonly Fact[]): string[] {
  const histories = new Histories(facts);
  const problems: string[] = [];
  const seen = new Set<string>();
  for (const { jid, minion, key } of histories.of('ran')) {
    for (const name of [`${jid} ${minion}`, ...(key === undefined ? [] : [`${key} ${minion}`])]) {
      if (seen.has(name)) problems.push(`ran twice: ${name}`);
      seen.add(name);
    }
  }
  const refused = new Set(
    histories.of('job').flatMap(({ jid, outcome }) => (outcome === 'refused' ? [jid] : [])),
  );
  for (const { jid } of histories.of('ran')) {
    if (refused.has(jid)) problems.push(`ran, and was refused: ${jid}`);
  }
  return problems;
}

/** Checks that no write took effect a second time after a later write. */
function checkRows(histories: Histories): string[] {
  return histories
    .of('reverted')
    .map(({ row, expected, found }) => `row ${row} is ${found}, and was ${expected}`);
}

/** Checks that leases did not overlap: each step was done once, and tokens only increase. */
function checkSteps(histories: Histories): string[] {
  const problems: string[] = [];
  const steps = [...histories.of('step')].sort((one, other) => one.number - other.number);
  for (const [index, { number, token, member }] of steps.entries()) {
    const next = steps[index + 1];
    if (next === undefined) break;
    if (next.number === number) problems.push(`step ${number} by ${member} and ${next.member}`);
    if (next.token < token)
      problems.push(`step ${next.number} under an older token than ${number}`);
  }
  return problems;
}

/**
 * Checks that each signal was delivered under one id, in the order in which its handle accepted
 * them.
 */
function checkSignals(histories: Histories, views: readonly MemberView[]): string[] {
  const problems: string[] = [];
  const arrivals = new Map<string, { first: number; last: number; ids: Set<string> }>();
  for (const [index, arrival] of histories.of('arrived').entries()) {
    const name = nameOf(arrival);
    const before = arrivals.get(name);
    const ids = (before?.ids ?? new Set()).add(arrival.id);
    arrivals.set(name, { first: before?.first ?? index, last: index, ids });
  }
  const signals = histories.of('signal').filter(({ outcome }) => outcome === 'kept');
  for (const signal of signals) {
    const found = arrivals.get(nameOf(signal));
    if (found === undefined) problems.push(`a signal was lost: ${nameOf(signal)}`);
    else if (found.ids.size > 1) problems.push(`a signal under two ids: ${nameOf(signal)}`);
  }
  for (const handle of new Set(signals.map((it) => it.handle))) {
    const sorted = signals.filter((it) => it.handle === handle);
    sorted.sort((one, other) => one.to - other.to);
    for (const [index, before] of sorted.entries()) {
      const last = arrivals.get(nameOf(before))?.last ?? -1;
      for (const after of sorted.slice(index + 1)) {
        const first = arrivals.get(nameOf(after))?.first ?? Number.POSITIVE_INFINITY;
        if (before.to < after.from && first < last) {
          problems.push(`signals out of order: ${nameOf(after)} before ${nameOf(before)}`);
        }
      }
    }
  }
  for (const { member, undelivered } of views) {
    for (const { id, state } of undelivered) problems.push(`${member}: signal ${id} is ${state}`);
  }
  return problems;
}

function nameOf({ handle, minion, number }: FactOf<'signal'> | FactOf<'arrived'>): string {
  return `${handle} ${minion} ${number}`;
}

/**
 * Checks that each stored job is in the audit log of a member, unless a member died at that time.
 */
function checkAudit(
  histories: Histories,
  views: readonly MemberView[],
  deaths: readonly Death[],
): string[] {
  const isAudited = (jid: string): boolean => views.some((it) => it.auditedJobs.has(jid));
  const isNearDeath = (from: number, to: number): boolean =>
    deaths.some((death) => from <= death.to && to >= death.from - auditMs);
  return histories
    .of('job')
    .filter(({ outcome, jid, from, to }) => {
      if (outcome !== 'kept' || isAudited(jid)) return false;
      return !isNearDeath(from, to);
    })
    .map(({ jid }) => `no audit record of job ${jid}`);
}

/** Checks that everything acknowledged exists, and nothing that was rejected. */
function checkView(histories: Histories, view: MemberView): string[] {
  const problems: string[] = [];
  for (const { jid, outcome, code } of histories.of('job')) {
    const isKept = view.jobs.has(jid);
    if (outcome === 'kept' && !isKept) problems.push(`job ${jid} was lost`);
    if (outcome === 'refused' && isKept) problems.push(`job ${jid} is kept, and refused: ${code}`);
  }
  for (const { jid, minion } of histories.of('returned')) {
    const report = view.jobs.get(jid);
    const count = report?.returns.filter((it) => it.minion === minion).length ?? 0;
    if (count !== 1) problems.push(`a return of ${jid} by ${minion} is there ${count} times`);
  }
  const keys = new Map(histories.of('key').map(({ id, state }) => [id, state]));
  for (const [id, state] of keys) {
    const found = view.keys.get(id) ?? 'deleted';
    if (state !== undefined && found !== state)
      problems.push(`key ${id} is ${found}, not ${state}`);
  }
  const tokens = new Map(histories.of('token').map(({ token, state }) => [token, state]));
  for (const [token, state] of tokens) {
    const found = view.validTokens.has(token) ? 'valid' : 'revoked';
    if (state !== undefined && found !== state) problems.push(`a token is ${found}, not ${state}`);
  }
  for (const { key, id, status } of histories.of('run')) {
    const found = view.runs.get(key);
    if (found === undefined || !found.isRepeated) problems.push(`key ${key} of a run is not known`);
    else if (found.id !== id) problems.push(`key ${key} is of run ${found.id}, not of ${id}`);
    // A member that has lost a run reports this, and another member continues the run.
    else if (status !== 'interrupted' && found.status !== status)
      problems.push(`run ${key} is ${found.status}, not ${status}`);
  }
  for (const { alias } of histories.of('handle')) {
    if (!view.handles.has(alias)) problems.push(`handle ${alias} was lost`);
  }
  return [...problems, ...checkLedger(histories, view)];
}

function checkLedger(histories: Histories, { ledger }: MemberView): string[] {
  const problems: string[] = [];
  const names = new Set(ledger.names);
  for (const { name, outcome, code } of histories.of('put')) {
    if (outcome === 'kept' && !names.has(name)) problems.push(`row ${name} was lost`);
    if (outcome === 'refused' && names.has(name)) problems.push(`row ${name} is kept: ${code}`);
  }
  const tokens = new Map(ledger.steps.map(({ number, token }) => [number, token]));
  for (const { number, token } of histories.of('step')) {
    if (tokens.get(number) !== token) problems.push(`step ${number} is not of token ${token}`);
  }
  const unordered = ledger.steps.filter(({ token }, index) => {
    const before = ledger.steps[index - 1];
    return before !== undefined && before.token > token;
  });
  for (const { number } of unordered) problems.push(`step ${number} is under an older token`);
  return problems;
}
