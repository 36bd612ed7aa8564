import type { Decision } from '../../acl/index.ts';
import {
  isWireMap,
  type MinionEventLoad,
  parseMinionEventLoad,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { StoreError } from '../../store/index.ts';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { SignalIntake } from '../extensions/extension.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { Throttle } from '../limits/throttle.ts';
import type { TokenBuckets } from '../limits/token-bucket.ts';
import type { Meter } from '../metrics/meter.ts';
import type { PolicyGate } from '../policy/gate.ts';
import { jidOf } from '../reactions/own-events.ts';
import type { DenialLog } from './denial-log.ts';
import { requestMark } from './repeats.ts';
import { type Handler, send, Unanswered, type VerifiedRequest } from './request.ts';

/** What the handler of `_minion_event` needs. */
export interface MinionEventOptions {
  readonly bus: EventBus;
  readonly jobs: JobCache;
  readonly rate: TokenBuckets;
  /** The same rate, for what waits for it. */
  readonly delayed: Throttle;
  readonly counters: RequestCounters;
  readonly meter: Meter;
  readonly denials: DenialLog;
  /** Reactions and extensions: what follows from events is kept before the reply. */
  readonly intakes: readonly SignalIntake[];
  /** What the operator lets minions emit. */
  readonly gate: PolicyGate;
  /** Largest event, bytes as sent (`event_bytes`). */
  readonly maxBytes: number;
  /** Whether a request was made before this master started, and may be a replay. */
  readonly isFromBefore: (request: VerifiedRequest) => boolean;
}

/** An event as it would be fired. */
interface Candidate {
  readonly tag: string;
  readonly data: WireMap;
  /** What the sender says with it, for the schema of a rule. */
  readonly said: WireValue | undefined;
  /** Its place in the request. */
  readonly place: number;
}

/** An event that may be fired. */
interface Permitted extends Candidate {
  /** The rule that says so. */
  readonly rule: string;
}

const progressJid = /^salt\/job\/(\d{20})\/prog\//;

/**
 * `_minion_event`: events that a minion fires, single or in a batch [WIRE 9.5]. Each final tag,
 * prefix included, is decided on by itself; the master sets `id`. What is refused is answered as
 * Salt answers it, and counted. What follows from it is kept before anything is told and answered;
 * a request from before the start may be a replay, so it is told nobody, but what was not kept then
 * is kept now.
 */
export function minionEventHandler(options: MinionEventOptions): Handler {
  return async (request) => {
    const { minionId, load } = request;
    if (minionId === undefined) return send({});
    if (request.bytes > options.maxBytes) {
      options.counters.count('event-bytes');
      return send(null);
    }
    const parsed = parseMinionEventLoad(load);
    if (!parsed.ok) {
      options.counters.count('malformed-event');
      return send(null);
    }
    const isWanted = ({ tag }: Candidate): boolean =>
      options.intakes.some((it) => it.isWanted(tag, minionId));
    const isDelayed = ({ tag }: Candidate): boolean =>
      options.intakes.some((it) => it.isDelayed?.(tag, minionId));
    const isOld = options.isFromBefore(request);
    if (isOld) options.counters.count('event-before-start');
    const permitted: Permitted[] = [];
    for (const event of candidates(parsed.value, minionId)) {
      if (isOld && !isWanted(event)) continue;
      const jid = progressJid.exec(event.tag)?.[1];
      const job = jid === undefined ? undefined : await options.jobs.find(jid);
      const ownJid = job?.minions.has(minionId) ? jid : undefined;
      const decision = judge(options, { minionId, event, bytes: request.bytes, ownJid });
      if (decision.effect === 'deny') continue;
      // Nothing is waited for where nothing is delayed: most events are of this kind.
      if (isDelayed(event)) await waitForRate(options, minionId);
      else if (!options.rate.tryTake(minionId)) {
        options.counters.count('event-rate');
        continue;
      }
      permitted.push({ ...event, rule: decision.rule });
    }
    const wanted = permitted.filter(isWanted);
    if (wanted.length > 0) await keepWanted(options, minionId, request, wanted);
    if (isOld) return send(null);
    for (const { tag, data } of permitted) options.bus.fire(tag, data, 'minion');
    return send(null);
  };
}

/** @throws Unanswered where as many of the minion's signals wait for its rate as may */
async function waitForRate(
  { delayed, counters }: MinionEventOptions,
  minionId: string,
): Promise<void> {
  if (await delayed.pass(minionId, 1, () => counters.count('signal-delayed'))) return;
  throw new Unanswered('signal-rate');
}

/** @throws Unanswered when one cannot be kept: the minion sends again by itself */
async function keepWanted(
  { intakes }: MinionEventOptions,
  sender: string,
  request: VerifiedRequest,
  wanted: readonly Permitted[],
): Promise<void> {
  const mark = requestMark(request);
  try {
    for (const { tag, data: body, said, rule, place } of wanted) {
      const from = mark === undefined ? undefined : { mark, place };
      const data = withoutPublication(said);
      const jid = causeOf(tag, said);
      for (const intake of intakes.filter((it) => it.isWanted(tag, sender))) {
        await intake.take({ tag, sender, data, body, rule, jid, request: from });
      }
    }
  } catch (cause) {
    if (cause instanceof StoreError) throw new Unanswered('signal-not-kept', { cause });
    throw cause;
  }
}

/** The job in which it was fired, by the minion's own word; a lie costs the minion alone. */
function causeOf(tag: string, said: WireValue | undefined): string | undefined {
  const jid = isWireMap(said) ? said.__pub_jid : undefined;
  return typeof jid === 'string' ? jid : jidOf(tag, {});
}

interface Question {
  readonly minionId: string;
  readonly event: Candidate;
  readonly bytes: number;
  /** The job that the tag names, if it was published to the minion. */
  readonly ownJid: string | undefined;
}

function judge(options: MinionEventOptions, question: Question): Decision {
  const { minionId, event, bytes, ownJid } = question;
  const { tag, said } = event;
  const decision = options.gate.decide({
    subject: { kind: 'minion', id: minionId },
    action: 'signal',
    resource: {
      tag,
      get data() {
        return withoutPublication(said);
      },
      bytes: () => bytes,
      wasPublishedToSubject: (jid) => jid === ownJid,
    },
  });
  if (decision.effect === 'allow') return decision;
  options.counters.count(`signal-${decision.rule}`);
  options.meter.countDeniedSignal();
  if (options.denials.note(minionId, tag, decision)) {
    const { rule, reason } = decision;
    options.bus.fire(tags.signalDenied(minionId), { id: minionId, tag, rule, reason });
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
    return [{ tag, data: { ...data, id: minionId }, said: data.data, place: 0 }];
  }
  const { pretag } = load;
  return load.events
    .flatMap(({ tag, data: sent }) => {
      const data = isWireMap(sent) ? { ...sent, id: minionId } : { data: sent, id: minionId };
      const tags = pretag === undefined ? [tag] : [tag, `${pretag}/${tag}`];
      return tags.map((one) => ({ tag: one, data, said: sent }));
    })
    .map((event, place) => ({ ...event, place }));
}
