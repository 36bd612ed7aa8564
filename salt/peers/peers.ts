/** Runs jobs and runners that minions request [WIRE 9.10]. */

import type { Logger } from 'pino';
import type { Call, Decision, MinionSubject } from '#acl';
import {
  type AddressedMinions,
  type ArgumentReader,
  actorOf,
  type BoundFunction,
  type Contributions,
  callOf,
  checkArguments,
  type FunctionArguments,
  type Functions,
  type JobOrigin,
  type JobReturn,
  type Jobs,
  joinKeywords,
  type MasterContext,
  MasterError,
  minionOwner,
  type PublishRequest,
  type RunDeps,
  requireInertArguments,
  returnerOf,
  runJob,
  separateKeywords,
  type TargetRequest,
  type Users,
} from '#master';
import {
  isFunctionName,
  isJid,
  isKeywordText,
  numberOf,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { FairSlots, LimitExceeded, minionWork, WorkBudget, WorkLimitExceeded } from '#runtime';
import { saltLimits } from '../limits.ts';
import { requesterJobs } from '../requester-jobs.ts';
import { PeerReplies, type PeerReply } from './peer-reply.ts';

type TargetReach = Parameters<Jobs['targets']['resolveWithin']>[1];

/** Maximum number of functions in one job. */
const maxFunctions = 100;

/** Maximum total length of the function names, in characters. */
const maxNames = 10_000;

/** Parser of command-line style arguments. */
type WordReader = Pick<ArgumentReader, 'readWords'>;

/** Parser for the arguments that a minion sent, and the id of this minion. */
interface MinionReader {
  readonly reader: WordReader;
  readonly minionId: string;
}

/** Returns the function names in a request, or `undefined` if they are invalid. */
function functionsOf({ fun }: WireMap): readonly string[] | undefined {
  if (typeof fun !== 'string' || fun.length > maxNames) return undefined;
  const funs = fun.split(',');
  return funs.length <= maxFunctions && funs.every(isFunctionName) ? funs : undefined;
}

/**
 * Returns calls without arguments, for a request that the rules reject because of its functions.
 * The arguments of such a request are not parsed.
 */
function bareCalls(funs: readonly string[]): readonly BoundFunction[] {
  return funs.map((fun) => ({ fun, arg: [], kwarg: {} }));
}

/**
 * Reads functions and their arguments from a request. If the request names several functions, each
 * element of its `arg` is a text with all arguments of one function. Returns `undefined` if the
 * arguments cannot be parsed.
 */
async function readCalls(
  funs: readonly string[],
  load: WireMap,
  by: MinionReader,
): Promise<readonly BoundFunction[] | undefined> {
  const { arg } = load;
  if (!Array.isArray(arg)) return undefined;
  const noParse = textsOf(load.no_parse);
  const [first = ''] = funs;
  const ofEach: readonly (readonly WireValue[] | undefined)[] =
    funs.length === 1 ? [arg] : arg.map(toWords);
  if (ofEach.length !== funs.length) return undefined;
  const calls: BoundFunction[] = [];
  for (const [index, inputs] of ofEach.entries()) {
    const call = inputs && (await readCall(funs[index] ?? first, inputs, noParse, by));
    if (call === undefined) return undefined;
    calls.push(call);
  }
  return calls;
}

function toWords(value: WireValue): readonly string[] | undefined {
  return typeof value === 'string' ? value.split(/\s+/).filter(Boolean) : undefined;
}

/** Returns the target of a request, or `undefined` if it is invalid. */
function readTarget({ tgt, tgt_type: type }: WireMap): TargetRequest | undefined {
  const isList = Array.isArray(tgt) && tgt.every((id) => typeof id === 'string');
  if (typeof tgt !== 'string' && !isList) return undefined;
  if (type === undefined || type === null) return { tgt };
  if (typeof type !== 'string') return undefined;
  return { tgt, tgtType: type.startsWith('node') ? 'nodegroup' : type.toLowerCase() };
}

async function readCall(
  fun: string,
  inputs: readonly WireValue[],
  noParse: readonly string[],
  by: MinionReader,
): Promise<BoundFunction | undefined> {
  try {
    const given = separateKeywords(inputs);
    const texts = given.arg.filter((input) => typeof input === 'string');
    const typed = await tryToRead(by, texts, noParse);
    if (typed === undefined) return undefined;
    const values = typed.arg.values();
    const arg = given.arg
      .filter((input) => typeof input !== 'string' || !isKeywordText(input))
      .map((input) => (typeof input === 'string' ? (values.next().value ?? null) : input));
    // Minions would interpret these texts as keyword arguments, which no rule has checked.
    if (arg.some((value) => typeof value === 'string' && isKeywordText(value))) return undefined;
    return { fun, ...checkArguments({ arg, kwarg: { ...given.kwarg, ...typed.kwarg } }) };
  } catch (error) {
    if (error instanceof MasterError) return undefined;
    throw error;
  }
}

/** Parses arguments. Returns `undefined` if they are invalid or take too long to parse. */
async function tryToRead(
  { reader, minionId }: MinionReader,
  texts: readonly string[],
  noParse: readonly string[],
): Promise<FunctionArguments | undefined> {
  try {
    return await reader.readWords(minionId, texts, noParse);
  } catch {
    return undefined;
  }
}

function textsOf(value: WireValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

export interface PeerPublisherOptions extends RunDeps {
  readonly dispatcher: Jobs['dispatcher'];
  readonly cache: Jobs['cache'];
  readonly targets: Pick<Jobs['targets'], 'resolveWithin'>;
  readonly gate: Users['gate'];
  readonly counters: MasterContext['counters'];
  readonly reader: WordReader;
  readonly log: Logger;
}

/** A job that the rules permit. */
interface Permitted {
  readonly calls: readonly BoundFunction[];
  readonly addressed: AddressedMinions;
  readonly decision: Decision;
}

/** Query to the access rules: may a minion publish a job with the given calls? */
interface PeerQuestion {
  readonly subject: MinionSubject;
  readonly action: 'publish';
  readonly calls: readonly Call[];
}

/** Maximum time that a minion may wait for a job in one request, in seconds. */
const maxWaitSeconds = 3600;

/**
 * Publishes jobs that minions request [WIRE 9.10; THREATS M-06]. Only jobs that `peer` allows are
 * permitted. The master resolves the target itself, from the grains and pillar that it stores. It
 * considers only the minions that the rules name. The job is then published for the resulting list
 * of ids, so that only these minions receive it.
 */
export class PeerPublisher {
  readonly #options: PeerPublisherOptions;
  readonly #replies = new PeerReplies();
  readonly #slots = new FairSlots(saltLimits.peerTargets);

  constructor(options: PeerPublisherOptions) {
    this.#options = options;
  }

  /**
   * Publishes a job without waiting for returns.
   * @param mark - id of the request; if this request was already processed, nothing is published
   * @returns `jid` and `minions`; empty if the job is rejected or matches no minion
   */
  async publish(minionId: string, load: WireMap, mark: string | undefined): Promise<WireMap> {
    const request = await this.#toRequest(minionId, load, mark);
    if (request === undefined) return {};
    try {
      const { record } = await this.#options.dispatcher.publish(request);
      return { jid: record.jid, minions: [...record.minions] };
    } catch (error) {
      return this.#refusal(error);
    }
  }

  /**
   * Publishes a job, waits until it has ended, and returns the results by minion id. If the request
   * contains `form: full`, each result also has the jid, function and return code.
   */
  async publishAndWait(
    minionId: string,
    load: WireMap,
    mark: string | undefined,
  ): Promise<WireMap> {
    const timeoutSeconds = secondsOf(load.timeout ?? load.tmo);
    if (timeoutSeconds === undefined) return {};
    const request = await this.#toRequest(minionId, load, mark);
    if (request === undefined) return {};
    const isFull = load.form === 'full';
    const reply: WireMap = Object.create(null);
    const size = this.#replies.open(minionId);
    try {
      for await (const update of runJob(this.#options, { ...request, timeoutSeconds })) {
        if (isFull && update.type === 'published') reply.__jid__ = update.jid;
        if (update.type !== 'return') continue;
        const ret = size.fit(update.jid, update);
        reply[returnerOf(update)] = isFull ? fullReturn(update.jid, update, ret) : ret;
      }
    } catch (error) {
      return this.#refusal(error);
    } finally {
      this.#countLeftOut(size);
      size.close();
    }
    return reply;
  }

  /** Returns the reply to a request whose job exceeds a limit of the minion. */
  #refusal(error: unknown): WireMap {
    if (!(error instanceof LimitExceeded)) throw error;
    this.#options.counters.count('peer-bytes');
    return {};
  }

  /**
   * Returns the results of a job by minion id if this minion requested the job. Otherwise returns
   * an empty map. A result that does not fit into the reply is replaced by an error text.
   */
  async returns(minionId: string, jid: WireValue | undefined): Promise<WireMap> {
    const record = isJid(jid) ? await this.#options.cache.record(jid) : undefined;
    if (record?.requestedBy !== minionId) return {};
    const reply: WireMap = Object.create(null);
    const size = this.#replies.open(minionId);
    try {
      const budget = new WorkBudget(minionWork, minionOwner(minionId));
      for await (const result of this.#options.cache.returns(record.jid, budget)) {
        const out: WireMap = result.out === undefined ? {} : { out: result.out };
        reply[returnerOf(result)] = { ret: size.fit(record.jid, result), ...out };
      }
    } finally {
      this.#countLeftOut(size);
      size.close();
    }
    return reply;
  }

  #countLeftOut({ leftOut }: PeerReply): void {
    if (leftOut > 0) this.#options.counters.count('peer-reply-bytes');
  }

  async #toRequest(
    minionId: string,
    load: WireMap,
    mark: string | undefined,
  ): Promise<(PublishRequest & JobOrigin) | undefined> {
    const permitted = await this.#judge(minionId, load);
    if (permitted === undefined || permitted.addressed.minions.length === 0) return undefined;
    // The job is stored before it is sent. A crash in between loses the job but never repeats it.
    if (!(await this.#options.cache.addMark(minionId, mark))) return undefined;
    const { calls, decision } = permitted;
    const { minions, ...leftOut } = permitted.addressed;
    const fun = calls.map((call) => call.fun);
    this.#options.log.info(
      { minion: minionId, fun, tgt: minions.slice(0, 10), rule: decision.reason, ...leftOut },
      'published a job at the request of a minion',
    );
    const by = { who: actorOf({ kind: 'minion', id: minionId }), rule: decision.rule };
    const caller = { user: minionId, requestedBy: minionId, by };
    const target = { tgt: minions, tgtType: 'list', leftOut, ...caller };
    const [first, ...more] = calls;
    if (first === undefined || more.length > 0) {
      return { ...target, fun, arg: calls.map(joinKeywords) };
    }
    return { ...target, ...first };
  }

  async #judge(minionId: string, load: WireMap): Promise<Permitted | undefined> {
    const { gate, reader } = this.#options;
    // Most refusals happen here, before the minion's input is parsed.
    const subject = { kind: 'minion', id: minionId } as const;
    if (!gate.mayPermit(subject, 'publish')) return this.#refuse('peer-off');
    const funs = functionsOf(load);
    if (funs === undefined) return this.#refuse('peer-malformed');
    const isWorthReading = gate.mayPermit(subject, 'publish', funs);
    const calls = isWorthReading
      ? await readCalls(funs, load, { reader, minionId })
      : bareCalls(funs);
    const target = readTarget(load);
    if (calls === undefined || target === undefined) return this.#refuse('peer-malformed');
    const asked = { subject, action: 'publish', calls: calls.map(callOf) } as const;
    const learning = gate.reachToLearn(asked);
    if (!calls.every(isInert)) return this.#refuse('peer-interpreted');
    const owner = minionOwner(minionId);
    const budget = new WorkBudget(minionWork, owner);
    const permit = (reach: TargetReach): Promise<Permitted | undefined> =>
      this.#permit(asked, calls, target, reach, budget);
    try {
      return await this.#slots.run(owner, async () => {
        const whole = learning && (await permit(learning));
        return whole ?? permit(gate.reach(asked));
      });
    } catch (error) {
      if (error instanceof LimitExceeded) return this.#refuse('peer-busy');
      throw error;
    }
  }

  async #permit(
    { subject, action, calls: judged }: PeerQuestion,
    calls: readonly BoundFunction[],
    target: TargetRequest,
    reach: TargetReach,
    budget: WorkBudget,
  ): Promise<Permitted | undefined> {
    const { gate, counters, log } = this.#options;
    const addressed = await this.#resolve(target, reach, budget);
    if (typeof addressed === 'string') return this.#refuse(addressed);
    const { minions } = addressed;
    const decision = gate.decide({ subject, action, resource: { calls: judged, minions } });
    if (decision.effect === 'allow') return { calls, addressed, decision };
    counters.count(`peer-${decision.rule}`);
    const { rule, reason } = decision;
    log.info(
      { minion: subject.id, rule, reason },
      'rejected the request of a minion to publish a job',
    );
    return undefined;
  }

  #refuse(reason: string): undefined {
    this.#options.counters.count(reason);
    return undefined;
  }

  async #resolve(
    target: TargetRequest,
    reach: TargetReach,
    budget: WorkBudget,
  ): Promise<AddressedMinions | 'peer-target' | 'peer-work-limit'> {
    try {
      return await this.#options.targets.resolveWithin(target, reach, budget);
    } catch (error) {
      if (error instanceof MasterError) return 'peer-target';
      if (error instanceof WorkLimitExceeded) return 'peer-work-limit';
      throw error;
    }
  }
}

/**
 * Whether minions use all arguments of a call as plain data. Salt interprets some texts in
 * arguments as calls or look-ups. If an argument contains such a text, the result is false.
 */
function isInert(call: BoundFunction): boolean {
  try {
    requireInertArguments(call);
    return true;
  } catch (error) {
    if (error instanceof MasterError) return false;
    throw error;
  }
}

function secondsOf(value: WireValue | undefined): number | undefined {
  if (value === undefined || value === null) return 5;
  const seconds = numberOf(value) ?? Number.NaN;
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, maxWaitSeconds) : undefined;
}

function fullReturn(jid: string, result: JobReturn, ret: WireValue): WireMap {
  const fun = typeof result.fun === 'string' ? result.fun : [...result.fun];
  const { minion: id, retcode, success } = result;
  return { id, jid, fun, ret, retcode, success };
}

export interface PeerRunnerOptions {
  readonly runners: Functions['runners'];
  /** Runners that extensions offer to minions. */
  readonly minionRunners: Contributions['minionRunners'];
  readonly jobs: Pick<Jobs['api'], 'run'>;
  readonly targets: Pick<Jobs['targets'], 'resolveWithin'>;
  readonly cache: Jobs['cache'];
  readonly gate: Users['gate'];
  readonly counters: MasterContext['counters'];
  readonly reader: WordReader;
  readonly log: Logger;
}

/** Runs runners that minions request. Only runners that `peer_run` allows are permitted. */
export class PeerRunner {
  readonly #options: PeerRunnerOptions;

  constructor(options: PeerRunnerOptions) {
    this.#options = options;
  }

  /**
   * Runs a runner.
   * @param mark - id of the request. If a request with this id was already processed, the runner
   * does not run again. Runners of extensions ignore the id, so they run again
   * @param protocol - protocol version of the request
   * @returns the result of the runner; an empty map if the request is rejected, or if the runner
   * does not run again
   */
  async run(
    minionId: string,
    load: WireMap,
    mark: string | undefined,
    protocol: number,
  ): Promise<WireValue> {
    const { gate, counters, log, cache, runners, minionRunners, reader } = this.#options;
    const subject = { kind: 'minion', id: minionId } as const;
    if (!gate.mayPermit(subject, 'runner')) return this.#refuse('peer-off');
    const funs = functionsOf(load) ?? [];
    const isWorthReading = gate.mayPermit(subject, 'runner', funs);
    const calls = isWorthReading
      ? await readCalls(funs, load, { reader, minionId })
      : bareCalls(funs);
    const [call, ...more] = calls ?? [];
    if (call === undefined || more.length > 0) return this.#refuse('peer-malformed');
    const resource = { call: callOf(call) };
    const decision = gate.decide({ subject, action: 'runner', resource });
    if (decision.effect === 'deny') {
      counters.count(`runner-${decision.rule}`);
      log.info(
        { minion: minionId, rule: decision.rule },
        'rejected the request of a minion to call a runner',
      );
      return {};
    }
    if (!isInert(call)) return this.#refuse('peer-interpreted');
    const own = minionRunners.get(call.fun);
    if (own !== undefined) {
      return own({ minion: minionId, protocol, arg: call.arg, kwarg: call.kwarg });
    }
    if (!(await cache.addMark(minionId, mark))) return {};
    log.info(
      { minion: minionId, fun: call.fun, rule: decision.reason },
      'starting a runner at the request of a minion',
    );
    try {
      const by = { who: actorOf({ kind: 'minion', id: minionId }), rule: decision.rule };
      const origin = { user: minionId, by, requesterJobs: this.#jobsOf(subject) };
      return (await runners.run({ ...call, ...origin })).return;
    } catch (error) {
      if (error instanceof MasterError) return error.message;
      throw error;
    }
  }

  /** Returns the jobs interface with the rights that `peer` gives the minion. */
  #jobsOf(subject: MinionSubject): ReturnType<typeof requesterJobs> {
    const { gate, jobs, targets } = this.#options;
    const action = 'publish';
    return requesterJobs(actorOf(subject), {
      ...{ jobs, targets, work: minionWork },
      reach: (calls) => gate.reach({ subject, action, calls }),
      decide: (calls, minions) => gate.decide({ subject, action, resource: { calls, minions } }),
    });
  }

  #refuse(reason: string): WireMap {
    this.#options.counters.count(reason);
    return {};
  }
}
