import type { Decision, EventResource } from '#acl';
import {
  isWireMap,
  type MinionEventLoad,
  parseMinionEventLoad,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { StoreError } from '#store';
import { DropConnectionError, send, type VerifiedRequest } from '../auth/index.ts';
import type { MasterContext } from '../context/index.ts';
import { type EventBus, jidOf, tags, trimValues } from '../events/index.ts';
import type { JobCache } from '../jobs/index.ts';
import type { PolicyGate } from '../users/index.ts';
import { mapMaybePromise } from './map-maybe-promise.ts';
import { requestDigest } from './request-digest.ts';
import type { RequestLimits } from './request-limits.ts';
import { defineRequestType, type RequestType } from './request-type.ts';
import type { SignalIntake } from './signal-intake.ts';

export interface MinionEventOptions {
  readonly context: Pick<MasterContext, 'counters' | 'meter'>;
  readonly bus: EventBus;
  readonly jobs: JobCache;
  readonly limits: RequestLimits;
  /**
   * Modules of extensions that process events of minions, for example as signals or for reactions.
   * They store the effects of an event before the master replies.
   */
  readonly intakes: readonly SignalIntake[];
  /** Policy that decides which events minions may emit. */
  readonly gate: PolicyGate;
}

/** Event in a request, before the policy has decided about it. */
interface Candidate {
  readonly tag: string;
  readonly data: WireMap;
  /**
   * Data that the minion sent, without the fields that the master adds. The schema of a rule
   * applies to it.
   */
  readonly said: WireValue | undefined;
  /** Position of the event in the request, counted from 0. */
  readonly place: number;
  /**
   * Whether large values of the event were replaced because the event exceeds `event_bytes`. Such
   * an event triggers no signal or reaction.
   */
  readonly isTrimmed: boolean;
}

/** Event that the policy has permitted. */
interface Permitted extends Candidate {
  /** Name of the rule that permitted the event. */
  readonly rule: string;
}

const ownJobTag = /^salt\/job\/(\d{20}(?:_\w{1,64})?)\/(?:prog|start)\//;

/**
 * Defines `_minion_event`: one event or a batch of events from a minion [WIRE 9.5]. The policy
 * decides about each event by its final tag, including the prefix, and the master sets the field
 * `id`. Rejected events are counted. The reply is always the same as in Salt. The master first
 * stores the signals and reactions that the events trigger, then publishes the events, and then
 * replies. A request that was created before the start of the master may be a replay. Its events
 * are not published, but missing signals and reactions are stored.
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
      const { minionId, bytes } = request;
      const isOld = limits.isFromBefore(request);
      if (isOld) counters.count('event-before-start');
      const maxBytes = limits.config.current.limits.eventBytes;
      const events = candidates(load, minionId);
      // An event is never larger than its request, so a small request needs no check.
      const fitting =
        bytes <= maxBytes ? events : events.map((event) => trimEvent(event, maxBytes));
      const asked = fitting.filter(({ tag }) => !isOld || isWanted(options, minionId, tag));
      noteTrimmed(options, minionId, asked);
      const jids = ownJids(options, minionId, asked);
      const permitted = mapMaybePromise(jids, (own) =>
        judgeAll(options, request, minionId, asked, own),
      );
      const due = mapMaybePromise(permitted, (events) =>
        whenDue(options, request, minionId, events),
      );
      const kept = mapMaybePromise(due, (events) => keepWanted(options, minionId, request, events));
      return mapMaybePromise(kept, ({ events, signalId = null }) => {
        if (!isOld) for (const { tag, data } of events) options.bus.fire(tag, data, 'minion');
        return send(load.wantsSignalId ? signalId : null);
      });
    },
  });
}

/**
 * Replaces the largest values of an event by the text `VALUE_TRIMMED` if the event exceeds
 * `maxBytes`, as Salt's event bus does [salt/utils/event.py].
 */
function trimEvent(event: Candidate, maxBytes: number): Candidate {
  const data = trimValues(event.data, maxBytes);
  return data === event.data ? event : { ...event, data, said: data.data, isTrimmed: true };
}

/**
 * Adds trimmed events to the list of rejected events, with the limit `event_bytes` as the reason.
 * An event that exceeds the limit is trimmed: its largest values are replaced.
 */
function noteTrimmed(
  { bus, context: { counters }, limits: { config, denials } }: MinionEventOptions,
  minionId: string,
  events: readonly Candidate[],
): void {
  for (const { tag } of events.filter(({ isTrimmed }) => isTrimmed)) {
    counters.count('event-bytes');
    const { eventBytes } = config.current.limits;
    const reason = `the event was trimmed: it is larger than event_bytes (${eventBytes}); it triggers no signal or reaction`;
    if (!denials.note(minionId, tag, { effect: 'deny', rule: 'event-bytes', reason })) continue;
    bus.fire(tags.signalDenied(minionId), { id: minionId, tag, rule: 'event-bytes', reason });
  }
}

/** Permitted events of a request, after the signals and reactions that they trigger were stored. */
interface KeptEvents {
  readonly events: readonly Permitted[];
  /**
   * Id of the first signal that was stored for these events. Absent if none of the events is a
   * signal.
   */
  readonly signalId?: string | undefined;
}

function isWanted({ intakes }: MinionEventOptions, minionId: string, tag: string): boolean {
  return intakes.some((it) => it.isWanted(tag, minionId));
}

const noJids: ReadonlySet<string> = new Set();

/** Returns the job ids in the tags of these events, if the jobs were published to this minion. */
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
    // The size of the request is limited to the maximum size of one event. So the size of a batch
    // does not affect the decision about each event.
    const size = Math.min(bytes, options.limits.config.current.limits.eventBytes);
    const decision = judge(options, minionId, new AskedEvent(event, size, jids));
    if (decision.effect === 'allow') permitted.push({ ...event, rule: decision.rule });
  }
  return permitted;
}

/**
 * Returns the events that the minion's rate limit permits, and drops the others. Signals for which
 * {@link SignalIntake.isDelayed} returns true are never dropped. The function waits until the rate
 * limit permits such signals.
 * @throws DropConnectionError if the key of the minion was deleted meanwhile
 */
function whenDue(
  options: MinionEventOptions,
  request: VerifiedRequest,
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
  // In the usual case there are no delayed events, and the result is synchronous.
  if (waiting === 0) return due;
  return waitForRate(options, minionId, waiting).then(() => {
    // The key may have been deleted while the signals waited.
    if (request.isKeyCurrent()) return due;
    throw new DropConnectionError('not-accepted');
  });
}

/**
 * Waits until the minion's rate limit permits the signals.
 * @throws DropConnectionError if too many signals of the minion are already waiting
 */
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

/** Stores the signals and reactions that the events trigger. */
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
 * Passes events to the intakes, which store signals and reactions.
 * @returns the id of the first event stored as a signal
 * @throws DropConnectionError if an event cannot be stored. The minion then sends the request again
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

/**
 * Returns the id of the job that emitted the event, according to the minion. A false claim affects
 * only the minion itself. `undefined` if the event names no job.
 */
function causeOf(tag: string, said: WireValue | undefined): string | undefined {
  const jid = isWireMap(said) ? said.__pub_jid : undefined;
  return typeof jid === 'string' ? jid : jidOf(tag, {});
}

/** Event of a minion in the form that the policy evaluates. */
class AskedEvent implements EventResource {
  readonly tag: string;
  readonly #said: WireValue | undefined;
  #data: { readonly value: WireValue | undefined } | undefined;
  readonly #bytes: number;
  readonly #jids: ReadonlySet<string>;

  /** @param jids - ids of jobs published to the minion */
  constructor({ tag, said }: Candidate, bytes: number, jids: ReadonlySet<string>) {
    this.tag = tag;
    this.#said = said;
    this.#bytes = bytes;
    this.#jids = jids;
  }

  get data(): WireValue | undefined {
    // Each rule with a schema reads the data.
    this.#data ??= { value: withoutPublication(this.#said) };
    return this.#data.value;
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
 * Removes the fields that Salt adds to the events of a job (`__pub_jid` and similar), because
 * operators' schemas for signals do not list them [salt.modules.event send].
 */
function withoutPublication(said: WireValue | undefined): WireValue | undefined {
  if (!isWireMap(said)) return said;
  return Object.fromEntries(Object.entries(said).filter(([name]) => !name.startsWith('__pub_')));
}

/** Returns the events in a load. The master sets their field `id`, whatever the minion sent. */
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
