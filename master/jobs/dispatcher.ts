import type {
  PublicationLoad,
  PublishOutcome,
  WireMap,
  WireValue,
} from '../../minion-protocol/index.ts';
import { MasterError } from '../errors.ts';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { Publisher } from '../publisher.ts';
import { parseTarget, resolveTarget } from '../targeting/resolve.ts';
import { Job, type JobRecord, type JobReturn, newJobEvent } from './job.ts';
import type { JobCache } from './job-cache.ts';

/** What a caller wants done. */
export interface PublishRequest {
  /** Who: a glob on ids, or ids for `tgtType: 'list'`. */
  readonly tgt: string | readonly string[];
  /** Default `glob`. */
  readonly tgtType?: string;
  /** The minion's function, `module.function`. */
  readonly fun: string;
  /** Positional arguments. */
  readonly arg?: readonly WireValue[];
  /** Keyword arguments. */
  readonly kwarg?: Readonly<Record<string, WireValue>>;
  /** Shown in the job and given back by the minion. Default `saltbridge`. */
  readonly user?: string;
  /** Returners that run on the minion, comma separated. */
  readonly ret?: string;
  /** Copied into the return. */
  readonly metadata?: WireMap;
}

/** A job that is on its way. */
export interface PublishedJob {
  readonly job: Job;
  readonly record: JobRecord;
  readonly delivery: PublishOutcome;
  /** Ends the calls of the listener that was given. */
  readonly stopListening: () => void;
}

/** What {@link JobDispatcher} needs. */
export interface JobDispatcherOptions {
  readonly acceptedIds: () => readonly string[];
  readonly cache: JobCache;
  readonly bus: EventBus;
  readonly publisher: Publisher;
  readonly nextJid: () => string;
  /** `master_id`, told in every publication; `null`: none. */
  readonly masterId: string | null;
  /** Ends the jobs that are followed: the master is being closed. */
  readonly closing: AbortSignal;
  readonly now: () => number;
}

const functionName = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$/;

/** Publishes jobs: keeps the job, tells it, sends it, in this order [WIRE 10.1]. */
export class JobDispatcher {
  readonly #options: JobDispatcherOptions;

  constructor(options: JobDispatcherOptions) {
    this.#options = options;
  }

  /** Fires when nothing more will come. */
  get closing(): AbortSignal {
    return this.#options.closing;
  }

  /**
   * Publishes to every minion that the target means. With none, nothing is published and the
   * job's `minions` are empty.
   * @param onReturn called for each return; listening before the job leaves, it misses none
   * @throws MasterError ERR_BAD_TGT, ERR_ARGS
   */
  async publish(
    request: PublishRequest,
    onReturn: (result: JobReturn) => void = () => {},
  ): Promise<PublishedJob> {
    const record = this.#describe(request);
    if (record.minions.length === 0) {
      const job = new Job(record, { isKept: false });
      return { job, record, delivery: { queued: 0, skipped: 0 }, stopListening: () => {} };
    }
    const job = await this.#options.cache.add(record);
    const stopListening = job.onReturn(onReturn);
    const load = this.#load(record, request);
    this.#options.bus.fire(tags.jobNew(record.jid), newJobEvent(record));
    this.#options.bus.fire(tags.jobPublish(record.jid), { ...load });
    const delivery = await this.#options.publisher.publish(load, record.minions);
    return { job, record, delivery, stopListening };
  }

  /**
   * Asks minions about a job. The round is known by heart only: it is neither kept nor told as a
   * job of its own.
   */
  async publishUnkept(
    minions: readonly string[],
    fun: string,
    arg: WireValue[],
    onReturn: (result: JobReturn) => void,
  ): Promise<void> {
    const record = this.#describe({ tgt: minions, tgtType: 'list', fun, arg });
    const job = this.#options.cache.remember(new Job(record, { isKept: false }));
    job.onReturn(onReturn);
    await this.#options.publisher.publish(this.#load(record, {}), record.minions);
  }

  #load(
    record: JobRecord,
    { ret = '', metadata }: Pick<PublishRequest, 'ret' | 'metadata'>,
  ): PublicationLoad {
    const { masterId } = this.#options;
    return {
      fun: record.fun,
      arg: [...record.arg],
      tgt: typeof record.tgt === 'string' ? record.tgt : [...record.tgt],
      tgt_type: record.tgtType,
      jid: record.jid,
      ret,
      user: record.user,
      ...(masterId === null ? {} : { master_id: masterId }),
      ...(metadata === undefined ? {} : { metadata }),
    };
  }

  #describe(request: PublishRequest): JobRecord {
    if (!functionName.test(request.fun)) {
      throw new MasterError(
        'ERR_ARGS',
        'fun is not the name of a function; expected module.function',
      );
    }
    const target = parseTarget(request.tgt, request.tgtType ?? 'glob');
    const { minions, missing } = resolveTarget(target, this.#options.acceptedIds());
    return {
      jid: this.#options.nextJid(),
      fun: request.fun,
      arg: toArguments(request),
      tgt: target.tgt,
      tgtType: target.tgtType,
      user: request.user ?? 'saltbridge',
      minions,
      missing,
      publishedAt: this.#options.now(),
      selfMade: false,
    };
  }
}

/** Positional values first, keywords as one last map with the mark [WIRE 11.5]. */
function toArguments(request: PublishRequest): WireValue[] {
  const positional = [...(request.arg ?? [])];
  const keywords = Object.entries(request.kwarg ?? {});
  if (keywords.length === 0) return positional;
  return [...positional, { __kwarg__: true, ...Object.fromEntries(keywords) }];
}
