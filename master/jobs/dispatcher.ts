import type {
  PublicationLoad,
  PublishOutcome,
  TargetExpression,
  WireMap,
  WireValue,
} from '../../minion-protocol/index.ts';
import { MasterError } from '../errors.ts';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { Publisher } from '../publisher.ts';
import type { TargetRequest } from '../targeting/parse.ts';
import type { TargetResolver } from '../targeting/resolve.ts';
import { Job, type JobRecord, type JobReturn, newJobEvent } from './job.ts';
import type { JobCache } from './job-cache.ts';

/** What a caller wants done. */
export interface PublishRequest extends TargetRequest {
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
  /** Why the target is broken, and therefore means nobody. */
  readonly problem?: string;
  /** Ends the calls of the listener that was given. */
  readonly stopListening: () => void;
}

/** What {@link JobDispatcher} needs. */
export interface JobDispatcherOptions {
  readonly targets: TargetResolver;
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

interface Described {
  readonly record: JobRecord;
  readonly target: TargetExpression;
  readonly problem: string | undefined;
}

/** Targets that transports may deliver to the resolved ids alone [WIRE 4.1]. */
const typesByIds: ReadonlySet<string> = new Set(['glob', 'pcre', 'list']);

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
    const { record, target, problem } = await this.#describe(request);
    if (record.minions.length === 0) {
      const job = new Job(record, { isKept: false });
      const delivery = { queued: 0, skipped: 0 };
      const broken = problem === undefined ? {} : { problem };
      return { job, record, delivery, ...broken, stopListening: () => {} };
    }
    const job = await this.#options.cache.add(record);
    const stopListening = job.onReturn(onReturn);
    const load = this.#load(record, target, request);
    this.#options.bus.fire(tags.jobNew(record.jid), newJobEvent(record));
    this.#options.bus.fire(tags.jobPublish(record.jid), { ...load });
    const delivery = await this.#options.publisher.publish(load, addresseesOf(record));
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
    const { record, target } = await this.#describe({ tgt: minions, tgtType: 'list', fun, arg });
    const job = this.#options.cache.remember(new Job(record, { isKept: false }));
    job.onReturn(onReturn);
    await this.#options.publisher.publish(this.#load(record, target, {}), addresseesOf(record));
  }

  #load(
    record: JobRecord,
    { delimiter = ':' }: TargetExpression,
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
      ...(delimiter === ':' ? {} : { delimiter }),
      ...(masterId === null ? {} : { master_id: masterId }),
      ...(metadata === undefined ? {} : { metadata }),
    };
  }

  async #describe(request: PublishRequest): Promise<Described> {
    if (!functionName.test(request.fun)) {
      throw new MasterError(
        'ERR_ARGS',
        'fun is not the name of a function; expected module.function',
      );
    }
    const { target, minions, missing, problem } = await this.#options.targets.resolve(request);
    const record: JobRecord = {
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
    return { record, target, problem };
  }
}

function addresseesOf({ tgtType, minions }: JobRecord): readonly string[] | null {
  return typesByIds.has(tgtType) ? minions : null;
}

/** Positional values first, keywords as one last map with the mark [WIRE 11.5]. */
function toArguments(request: PublishRequest): WireValue[] {
  const positional = [...(request.arg ?? [])];
  const keywords = Object.entries(request.kwarg ?? {});
  if (keywords.length === 0) return positional;
  return [...positional, { __kwarg__: true, ...Object.fromEntries(keywords) }];
}
