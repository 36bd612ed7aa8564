import type { Decision, EventResource } from '#acl';
import {
  isWireMap,
  type MinionEventLoad,
  parseMinionEventLoad,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { mapMaybePromise } from '#runtime';
import { StoreError } from '#store';
import { DropConnectionError, send, type VerifiedRequest } from '../auth/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type EventBus, jidOf, tags, trimValues } from '../events/index.ts';
import type { JobCache } from '../jobs/index.ts';
import type { PolicyGate } from '../users/index.ts';
import { requestDigest } from './replay-cache.ts';
import type { RequestLimits } from './request-limits.ts';
import { defineRequestType, type RequestType } from './request-type.ts';
import type { SignalIntake } from './signal-intake.ts';

export interface MinionEventOptions {
  readonly context: Pick<MasterContext, 'counters' | 'meter'>;
  readonly bus: EventBus;
  readonly jobs: JobCache;
  readonly limits: RequestLimits;
  /** Reactions and extensions: what follows from events is kept before the reply. */
  readonly intakes: readonly SignalIntake[];
  /** What the operator lets minions emit. */
  readonly gate: PolicyGate;
}

/** An event as it would be fired. */
interface Candidate {
  readonly tag: string;
  readonly data: WireMap;
  /** What the sender says with it, for the schema of a rule. */
  readonly said: WireValue | undefined;
  /** Its place in the request. */
  readonly place: number;
  /** Whether values were too large and are replaced: nothing may follow from what is left. */
  readonly isTrimmed: boolean;
}

/** An event that may be fired. */
interface Permitted extends Candidate {
  /** The rule that says so. */
  readonly rule: string;
}

const ownJobTag = /^salt\/job\/(\d{20}(?:_\w{1,64})?)\/(?:prog|start)\//;

/**
 * `_minion_event`: events that a minion fires, single or in a batch [WIRE 9.5]. Each final tag,
 * prefix included, is decided on by itself; the master sets `id`. What is refused is answered as
 * Salt answers it, and counted. What follows from it is kept before anything is told and answered;
 * a request from before the start may be a replay, so it is told nobody, but what was not kept then
 * is kept now.
 */
export function minionEventRequest(options: MinionEventOptions): RequestType {
  const { context, limits } = options;
  const { counters } = context;
  return defineRequestType({
    kind: 'once',
    needsToken: true,
    rate: 'requests',
    isBrief: true,
    load: (load) => {
      const parsed = parseMinionEventLoad(load);
      if (parsed.ok) return parsed.value;
      counters.count('malformed-event');
      return undefined;
    },
    malformed: () => send(null),
    handle: (request, load) => {
      const { minionId } = request;
      const isOld = limits.isFromBefore(request);
      if (isOld) counters.count('event-before-start');
      const maxBytes = limits.config.current.limits.eventBytes;
      const asked = candidates(load, minionId)
        .map((event) => trimEvent(event, maxBytes))
        .filter(({ tag }) => !isOld || isWanted(options, minionId, tag));
      noteTrimmed(options, minionId, asked);
      const jids = ownJids(options, minionId, asked);
      const permitted = mapMaybePromise(jids, (own) =>
        judgeAll(options, request, minionId, asked, own),
      );
      const due = mapMaybePromise(permitted, (events) => whenDue(options, minionId, events));
      const kept = mapMaybePromise(due, (events) => keepWanted(options, minionId, request, events));
      return mapMaybePromise(kept, ({ events, signalId = null }) => {
        if (!isOld) for (const { tag, data } of events) options.bus.fire(tag, data, 'minion');
        return send(load.wantsSignalId ? signalId : null);
      });
    },
  });
}

/** The event with its largest values replaced, as Salt's bus replaces them [salt/utils/event.py]. */
function trimEvent(event: Candidate, maxBytes: number): Candidate {
  const data = trimValues(event.data, maxBytes);
  return data === event.data ? event : { ...event, data, said: data.data, isTrimmed: true };
}

/** Lists trimmed events among the refused ones, with the limit. */
function noteTrimmed(
  { bus, context: { counters }, limits: { config, denials } }: MinionEventOptions,
  minionId: string,
  events: readonly Candidate[],
): void {
  for (const { tag } of events.filter(({ isTrimmed }) => isTrimmed)) {
    counters.count('event-bytes');
    const { eventBytes } = config.current.limits;
    const reason = `the event was trimmed: larger than event_bytes (${eventBytes}); no signal or reaction follows from it`;
    if (!denials.note(minionId, tag, { effect: 'deny', rule: 'event-bytes', reason })) continue;
    bus.fire(tags.signalDenied(minionId), { id: minionId, tag, rule: 'event-bytes', reason });
  }
}

/** Events that are told now, after what follows from them was kept. */
interface KeptEvents {
  readonly events: readonly Permitted[];
  /** Of the first that goes on as a signal. */
  readonly signalId?: string | undefined;
}

function isWanted({ intakes }: MinionEventOptions, minionId: string, tag: string): boolean {
  return intakes.some((it) => it.isWanted(tag, minionId));
}

const noJids: ReadonlySet<string> = new Set();

/** The jobs that start or progress is told of, of those that were published to the minion. */
function ownJids(
  { jobs }: MinionEventOptions,
  minionId: string,
  events: readonly Candidate[],
): ReadonlySet<string> | Promise<ReadonlySet<string>> {
  const named = events.flatMap(({ tag }) => ownJobTag.exec(tag)?.[1] ?? []);
  return named.length === 0 ? noJids : publishedTo(jobs, minionId, named);
}

async function publishedTo(
  jobs: JobCache,
  minionId: string,
  jids: readonly string[],
): Promise<ReadonlySet<string>> {
  const own = new Set<string>();
  for (const jid of new Set(jids)) {
    const job = await jobs.find(jid);
    if (job?.minions.has(minionId)) own.add(jid);
  }
  return own;
}

function judgeAll(
  options: MinionEventOptions,
  { bytes }: VerifiedRequest,
  minionId: string,
  events: readonly Candidate[],
  jids: ReadonlySet<string>,
): readonly Permitted[] {
  const permitted: Permitted[] = [];
  for (const event of events) {
    // Others in the request do not make an event large.
    const size = Math.min(bytes, options.limits.config.current.limits.eventBytes);
    const decision = judge(options, minionId, new AskedEvent(event, size, jids));
    if (decision.effect === 'allow') permitted.push({ ...event, rule: decision.rule });
  }
  return permitted;
}

/** Those that the minion's rate lets pass; signals that something follows from wait for it. */
function whenDue(
  options: MinionEventOptions,
  minionId: string,
  events: readonly Permitted[],
): readonly Permitted[] | Promise<readonly Permitted[]> {
  const { context, intakes, limits } = options;
  let waiting = 0;
  const due = events.filter(({ tag }) => {
    const isDelayed = intakes.some((it) => it.isDelayed?.(tag, minionId));
    if (isDelayed) waiting += 1;
    if (isDelayed || limits.events.tryTake(minionId)) return true;
    context.counters.count('event-rate');
    return false;
  });
  // Nothing is waited for where nothing is delayed: most events are of this kind.
  return waiting === 0 ? due : waitForRate(options, minionId, waiting).then(() => due);
}

/** @throws DropConnectionError where as many of the minion's signals wait for its rate as may */
async function waitForRate(
  { limits, context: { counters } }: MinionEventOptions,
  minionId: string,
  signals: number,
): Promise<void> {
  for (let signal = 0; signal < signals; signal += 1) {
    const isDue = await limits.delayedEvents.pass(minionId, 1, () =>
      counters.count('signal-delayed'),
    );
    if (!isDue) throw new DropConnectionError('signal-rate');
  }
}

/** What follows from them is kept before anything is told or answered. */
function keepWanted(
  options: MinionEventOptions,
  sender: string,
  request: VerifiedRequest,
  events: readonly Permitted[],
): KeptEvents | Promise<KeptEvents> {
  const wanted = events.filter(
    ({ tag, isTrimmed }) => !isTrimmed && isWanted(options, sender, tag),
  );
  if (wanted.length === 0) return { events };
  return keep(options, sender, request, wanted).then((signalId) => ({ events, signalId }));
}

/**
 * @returns the id of the first that goes on as a signal
 * @throws DropConnectionError when one cannot be kept: the minion sends again by itself
 */
async function keep(
  { intakes }: MinionEventOptions,
  sender: string,
  request: VerifiedRequest,
  wanted: readonly Permitted[],
): Promise<string | undefined> {
  const mark = requestDigest(request);
  let signalId: string | undefined;
  try {
    for (const { tag, data: body, said, rule, place } of wanted) {
      const data = withoutPublication(said);
      const jid = causeOf(tag, said);
      for (const intake of intakes.filter((it) => it.isWanted(tag, sender))) {
        const id = await intake.take({
          tag,
          sender,
          data,
          body,
          rule,
          jid,
          request: { mark, place },
        });
        signalId ??= id;
      }
    }
    return signalId;
  } catch (cause) {
    if (cause instanceof StoreError) throw new DropConnectionError('signal-not-kept', { cause });
    throw cause;
  }
}

/** The job in which it was fired, by the minion's own word; a lie costs the minion alone. */
function causeOf(tag: string, said: WireValue | undefined): string | undefined {
  const jid = isWireMap(said) ? said.__pub_jid : undefined;
  return typeof jid === 'string' ? jid : jidOf(tag, {});
}

/** A minion's event, as the policy looks at it. */
class AskedEvent implements EventResource {
  readonly tag: string;
  readonly #said: WireValue | undefined;
  readonly #bytes: number;
  readonly #jids: ReadonlySet<string>;

  /** @param jids jobs that were published to the minion */
  constructor({ tag, said }: Candidate, bytes: number, jids: ReadonlySet<string>) {
    this.tag = tag;
    this.#said = said;
    this.#bytes = bytes;
    this.#jids = jids;
  }

  get data(): WireValue | undefined {
    return withoutPublication(this.#said);
  }

  bytes(): number {
    return this.#bytes;
  }

  wasPublishedToSubject(jid: string): boolean {
    return this.#jids.has(jid);
  }
}

function judge(options: MinionEventOptions, minionId: string, resource: AskedEvent): Decision {
  const { bus, gate, limits, context } = options;
  const decision = gate.decide({
    subject: { kind: 'minion', id: minionId },
    action: 'signal',
    resource,
  });
  if (decision.effect === 'allow') return decision;
  context.counters.count(`signal-${decision.rule}`);
  context.meter.signalsDenied += 1;
  const { tag } = resource;
  if (limits.denials.note(minionId, tag, decision)) {
    const { rule, reason } = decision;
    bus.fire(tags.signalDenied(minionId), { id: minionId, tag, rule, reason });
  }
  return decision;
}

/**
 * Where a job made it, Salt adds what it knows of the job (`__pub_jid` and the like), which no
 * schema of the operator's is about [salt.modules.event send].
 */
function withoutPublication(said: WireValue | undefined): WireValue | undefined {
  if (!isWireMap(said)) return said;
  return Object.fromEntries(Object.entries(said).filter(([name]) => !name.startsWith('__pub_')));
}

/** The events of a load; the master sets `id`, whatever the sender wrote there. */
function candidates(load: MinionEventLoad, minionId: string): Candidate[] {
  if (load.form === 'empty') return [];
  if (load.form === 'single') {
    const { tag, data } = load;
    return [{ tag, data: { ...data, id: minionId }, said: data.data, place: 0, isTrimmed: false }];
  }
  const { pretag } = load;
  return load.events
    .flatMap(({ tag, data: sent }) => {
      const data = isWireMap(sent) ? { ...sent, id: minionId } : { data: sent, id: minionId };
      const tags = pretag === undefined ? [tag] : [tag, `${pretag}/${tag}`];
      return tags.map((one) => ({ tag: one, data, said: sent }));
    })
    .map((event, place) => ({ ...event, place, isTrimmed: false }));
}
