import { decide, type Policy } from '../../acl/index.ts';
import {
  isWireMap,
  type MinionEventLoad,
  parseMinionEventLoad,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { TokenBuckets } from '../limits/token-bucket.ts';
import type { DenialLog } from './denial-log.ts';
import { type Handler, send, type VerifiedRequest } from './request.ts';

/** What the handler of `_minion_event` needs. */
export interface MinionEventOptions {
  readonly bus: EventBus;
  readonly jobs: JobCache;
  readonly rate: TokenBuckets;
  readonly counters: RequestCounters;
  readonly denials: DenialLog;
  /** What the operator lets minions emit. */
  readonly policy: () => Policy;
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
}

const progressJid = /^salt\/job\/(\d{20})\/prog\//;

/**
 * `_minion_event`: events that a minion fires, single or in a batch [WIRE 9.5]. Each final tag,
 * prefix included, is decided on by itself; the master sets `id`. What is refused is answered as
 * Salt answers it, and counted.
 */
export function minionEventHandler(options: MinionEventOptions): Handler {
  return async (request) => {
    const { minionId, load } = request;
    if (minionId === undefined) return send({});
    const obstacle = obstacleTo(request, options);
    if (obstacle !== undefined) {
      options.counters.count(obstacle);
      return send(null);
    }
    const parsed = parseMinionEventLoad(load);
    if (!parsed.ok) {
      options.counters.count('malformed-event');
      return send(null);
    }
    for (const event of candidates(parsed.value, minionId)) {
      const jid = progressJid.exec(event.tag)?.[1];
      const job = jid === undefined ? undefined : await options.jobs.find(jid);
      const ownJid = job?.minions.has(minionId) ? jid : undefined;
      if (!isPermitted(options, { minionId, event, bytes: request.bytes, ownJid })) continue;
      if (!options.rate.tryTake(minionId)) {
        options.counters.count('event-rate');
        continue;
      }
      options.bus.fire(event.tag, event.data);
    }
    return send(null);
  };
}

/** Why a whole request is dropped unread. */
function obstacleTo(request: VerifiedRequest, options: MinionEventOptions): string | undefined {
  if (request.bytes > options.maxBytes) return 'event-bytes';
  return options.isFromBefore(request) ? 'event-before-start' : undefined;
}

interface Question {
  readonly minionId: string;
  readonly event: Candidate;
  readonly bytes: number;
  /** The job that the tag names, if it was published to the minion. */
  readonly ownJid: string | undefined;
}

function isPermitted(options: MinionEventOptions, question: Question): boolean {
  const { minionId, event, bytes, ownJid } = question;
  const { tag, said } = event;
  const decision = decide(
    {
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
    },
    options.policy(),
  );
  if (decision.effect === 'allow') return true;
  options.counters.count(`signal-${decision.rule}`);
  if (options.denials.note(minionId, tag, decision)) {
    const { rule, reason } = decision;
    options.bus.fire(tags.signalDenied(minionId), { id: minionId, tag, rule, reason });
  }
  return false;
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
    return [{ tag, data: { ...data, id: minionId }, said: data.data }];
  }
  const { pretag } = load;
  return load.events.flatMap(({ tag, data: sent }) => {
    const data = isWireMap(sent) ? { ...sent, id: minionId } : { data: sent, id: minionId };
    return pretag === undefined
      ? [{ tag, data, said: sent }]
      : [
          { tag, data, said: sent },
          { tag: `${pretag}/${tag}`, data, said: sent },
        ];
  });
}
