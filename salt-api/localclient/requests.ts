/** Unencrypted requests of Salt's own clients: publishing, runners, wheel functions and log-ins. */

import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from 'pino';
import Type, { type Static } from 'typebox';
import { type MasterApi, MasterError, type PublishRequest } from '#master';
import {
  clearLimits,
  formatEventStamp,
  isWireMap,
  loadLimits,
  type PayloadLimits,
  ProtocolError,
  packLocal,
  unpackWire,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { codeOf, compileSchema, RepeatedWarnings, unlimitedSteps, WorkBudget } from '#runtime';
import { type AccountKey, type Caller, callerOf, logIn } from './caller.ts';
import { hasCredentials, loginIn, packedCredentials } from './credentials.ts';

const Text = Type.String();
const Texts = Type.Union([Text, Type.Array(Text)]);
const AnyMap = Type.Unsafe<WireMap>(Type.Object({}));
const AnyList = Type.Array(Type.Unsafe<WireValue>(Type.Unknown()));

const PublishLoad = Type.Object({
  tgt: Texts,
  fun: Texts,
  arg: Type.Optional(AnyList),
  tgt_type: Type.Optional(Text),
  ret: Type.Optional(Type.Union([Text, Type.Null()])),
  jid: Type.Optional(Type.Union([Text, Type.Null()])),
  kwargs: Type.Optional(AnyMap),
});
const publishLoad = compileSchema(PublishLoad);

const RunnerLoad = Type.Object({
  fun: Text,
  kwarg: Type.Optional(Type.Object({ arg: Type.Optional(AnyList), kwarg: Type.Optional(AnyMap) })),
});
const runnerLoad = compileSchema(RunnerLoad);

const WheelLoad = Type.Object({
  fun: Text,
  arg: Type.Optional(AnyList),
  kwarg: Type.Optional(AnyMap),
});
const wheelLoad = compileSchema(WheelLoad);

/** Fields of a wheel request that are not arguments of the function. */
const ownFields: ReadonlySet<string> = new Set([
  ...['cmd', 'fun', 'key', 'user', 'token', 'eauth', 'username', 'password'],
  ...['client', 'full_return', 'print_event', 'asynchronous'],
]);

/**
 * Fields of `kwargs` that would change how the minion executes the job. Requests with these fields
 * are rejected.
 */
const unservedKeywords = ['ret_config', 'ret_kwargs', 'module_executors', 'executor_opts'];

/**
 * Minimum time between two identical requests for the second one to count as a repetition, in
 * milliseconds. A repetition gets the reply to the first request. Clients repeat a request after
 * their `timeout`, which is at least a second.
 */
const repetitionAfterMs = 500;

export interface LocalRequestDeps {
  readonly master: MasterApi;
  readonly own: AccountKey;
  /** Returns the current time, in milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Logger;
}

interface Underway {
  readonly since: number;
  readonly reply: Promise<WireValue>;
}

/** Answers requests of Salt's own clients. */
export class LocalRequests {
  readonly #deps: LocalRequestDeps;
  readonly #underway = new Map<string, Underway>();
  readonly #warnings: RepeatedWarnings;
  /** Turns in which large requests are read. */
  readonly #largeTurns = new WorkBudget(unlimitedSteps, 'localclient');
  #refused = 0;

  constructor(deps: LocalRequestDeps) {
    this.#deps = deps;
    this.#warnings = new RepeatedWarnings(deps.log, deps.now);
  }

  /** Number of requests since the start that were rejected for their key, log-in or rights. */
  get refused(): number {
    return this.#refused;
  }

  /**
   * Handles a request.
   * @returns the packed reply, also for an invalid request
   */
  async handle(request: Uint8Array): Promise<Uint8Array> {
    return packLocal(await this.#answer(request));
  }

  async #answer(request: Uint8Array): Promise<WireValue> {
    const load = loadOf(request, clearLimits);
    if (load === undefined) return notARequest;
    if (load === 'large') return this.#answerLarge(request);
    try {
      return await this.#dispatch(load, request);
    } catch (error) {
      return this.#refusal(load, error);
    }
  }

  /**
   * Handles a request that is larger than the limits for unauthenticated clients permit. In each
   * turn of the event loop, one of these requests is read.
   * @returns the reply
   */
  async #answerLarge(request: Uint8Array): Promise<WireValue> {
    // Any account on the host can send large requests, and reading one takes up to about 30 ms.
    await this.#largeTurns.giveWay();
    const shown = packedCredentials(request);
    if (shown === undefined || !largeCommands.has(String(shown.cmd))) return notARequest;
    const { master, own } = this.#deps;
    try {
      const caller = await callerOf(master, own, shown, loginIn(shown));
      try {
        const load = loadOf(request, loadLimits);
        if (load === undefined || load === 'large' || !hasCredentials(load, shown))
          return notARequest;
        return await this.#dispatch(load, request, caller);
      } finally {
        await caller.end();
      }
    } catch (error) {
      return this.#refusal(shown, error);
    }
  }

  async #dispatch(load: WireMap, request: Uint8Array, known?: Caller): Promise<WireValue> {
    switch (load.cmd) {
      case 'publish':
        return this.#publishOnce(load, request, known);
      case 'runner':
        return this.#startRunner(load, known);
      case 'wheel':
        return this.#runWheel(load, known);
      case 'mk_token':
        return this.#makeToken(load);
      case 'get_token':
        return this.#findToken(load);
      case 'ping':
        return load;
      default:
        return {};
    }
  }

  /**
   * Publishes the job of a request. If an identical request arrived at least
   * {@link repetitionAfterMs} earlier and is still unanswered, the client has repeated its request.
   * Then no second job is published, and both requests get the same reply. Identical requests
   * within a shorter time come from different callers, and each publishes a job.
   */
  #publishOnce(load: WireMap, request: Uint8Array, known?: Caller): Promise<WireValue> {
    const { now } = this.#deps;
    const name = hash('sha256', request, 'base64');
    const first = this.#underway.get(name);
    if (first !== undefined && now() - first.since >= repetitionAfterMs) return first.reply;
    const reply = this.#publish(load, known);
    if (first !== undefined) return reply;
    const forget = (): unknown => this.#underway.delete(name);
    this.#underway.set(name, { since: now(), reply });
    reply.then(forget, forget);
    return reply;
  }

  async #publish(load: WireMap, known?: Caller): Promise<WireValue> {
    // Clients connect to the event socket before they send the request, so they miss no event of
    // the job.
    await nextTurn();
    const given = checked(publishLoad, load, 'publish');
    const request = toPublishRequest(given);
    const receipt = await this.#as(known, load, ({ api, shown }) =>
      api.jobs.publish({ ...request, ...shown }),
    );
    const { jid, minions, missing, problem } = receipt;
    if (minions.length === 0) {
      const error = problem ?? `Master could not resolve minions for target ${String(given.tgt)}`;
      return { enc: 'clear', load: { jid: null, minions: [], error } };
    }
    return { enc: 'clear', load: { jid, minions: [...minions], missing: [...missing] } };
  }

  /** Starts a runner. Its result is in the event `<tag>/ret`. */
  async #startRunner(load: WireMap, known?: Caller): Promise<WireValue> {
    const { fun, kwarg: { arg = [], kwarg = {} } = {} } = checked(runnerLoad, load, 'runner');
    const { tag, jid } = await this.#as(known, load, ({ api, shown }) =>
      api.runners.start({ fun, arg, kwarg, ...shown }),
    );
    return { tag, jid };
  }

  async #runWheel(load: WireMap, known?: Caller): Promise<WireValue> {
    const { fun, arg = [], kwarg } = checked(wheelLoad, load, 'wheel');
    const fields = Object.entries(load).filter(([name]) => !ownFields.has(name));
    const isSeparate = load.arg !== undefined || kwarg !== undefined;
    const keywords = isSeparate ? (kwarg ?? {}) : Object.fromEntries(fields);
    const result = await this.#as(known, load, async ({ api, name, shown }) => ({
      ...(await api.wheel.run({ fun, arg, kwarg: keywords, ...shown })),
      user: name,
    }));
    const { jid, success } = result;
    const tag = `salt/wheel/${jid}`;
    const _stamp = formatEventStamp(new Date(this.#deps.now()));
    const { fun: name, user, return: value } = result;
    return { tag, data: { fun: name, jid, tag, user, _stamp, return: value, success } };
  }

  async #makeToken(load: WireMap): Promise<WireValue> {
    try {
      const { token, ...info } = await logIn(this.#deps.master, load);
      return tokenInfo(info, token);
    } catch (error) {
      if (!isAuthentication(error)) throw error;
      this.#logRefusal('mk_token', codeOf(error));
      return '';
    }
  }

  async #findToken({ token }: WireMap): Promise<WireValue> {
    if (typeof token !== 'string') return false;
    try {
      return tokenInfo(await this.#deps.master.logins.identify(token), token);
    } catch (error) {
      if (!isAuthentication(error)) throw error;
      return {};
    }
  }

  /**
   * Calls `work` with the caller of a request.
   * @param known - caller, if it was already identified. If `undefined`, this method identifies the
   * caller, and calls its `end` after `work`
   */
  async #as<T>(
    known: Caller | undefined,
    load: WireMap,
    work: (caller: Caller) => Promise<T>,
  ): Promise<T> {
    if (known !== undefined) return work(known);
    const { master, own } = this.#deps;
    const caller = await callerOf(master, own, load, loginIn(load));
    try {
      return await work(caller);
    } finally {
      await caller.end();
    }
  }

  /**
   * Logs a rejected request. The rate of these messages is limited, because any account on the host
   * can cause them.
   */
  #logRefusal(cmd: string, code: string | undefined): void {
    this.#refused += 1;
    const about = { cmd, code, refused: this.#refused };
    this.#warnings.warn('refused', about, 'rejected a request of a LocalClient');
  }

  /**
   * Returns the reply to a request that failed. It contains the name of the exception that the
   * client raises. It contains no values of the request, because they may be secret.
   */
  #refusal({ cmd, fun }: WireMap, error: unknown): WireValue {
    const code = codeOf(error);
    const name = isAuthentication(error)
      ? 'AuthenticationError'
      : code === 'ERR_DENIED'
        ? 'AuthorizationError'
        : undefined;
    if (name !== undefined) {
      this.#logRefusal(String(cmd), code);
      const message = name === 'AuthenticationError' ? 'Authentication' : 'Authorization';
      return { error: { name, message: `${message} error occurred.` } };
    }
    if (error instanceof Error && code?.startsWith('ERR_')) return failure(cmd, error.message);
    this.#deps.log.error({ cmd: String(cmd), fun: String(fun), err: error }, 'request failed');
    return failure(cmd, "internal error of the master; see the master's log");
  }
}

/**
 * Returns a failure in the form that clients expect: a text for `publish`, and otherwise the name
 * and text of an exception.
 */
function failure(cmd: WireValue | undefined, message: string): WireMap {
  return { error: cmd === 'publish' ? message : { name: 'SaltClientError', message } };
}

const notARequest: WireMap = { error: 'not an unencrypted request' };

/**
 * Commands whose requests may be large. The caller of a large request must be identified before the
 * request is unpacked.
 */
const largeCommands: ReadonlySet<string> = new Set(['publish', 'runner', 'wheel']);

/**
 * Returns the load of an unencrypted request. Returns `undefined` if the bytes are not such a
 * request, and `large` if they exceed the limits.
 */
function loadOf(request: Uint8Array, limits: PayloadLimits): WireMap | 'large' | undefined {
  try {
    const envelope = unpackWire(request, { ...limits, maxDepth: limits.maxDepth + 1 });
    if (!isWireMap(envelope) || envelope.enc !== 'clear') return undefined;
    return isWireMap(envelope.load) ? envelope.load : undefined;
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return error.code === 'ERR_PAYLOAD_LIMIT' ? 'large' : undefined;
  }
}

/**
 * Validates the fields of a request by a schema.
 * @throws MasterError ERR_ARGS
 */
function checked<T>(
  form: { Check(value: unknown): value is T; Errors(value: unknown): Iterable<unknown> },
  load: WireMap,
  cmd: string,
): T {
  if (form.Check(load)) return load;
  throw new MasterError(
    'ERR_ARGS',
    `${cmd}: a field of the request is missing or has an invalid value`,
  );
}

/**
 * Converts the fields of a client's request to a request of the master's job interface.
 * @throws MasterError ERR_ARGS
 */
function toPublishRequest(load: Static<typeof PublishLoad>): PublishRequest {
  const { tgt, fun, arg = [], tgt_type: tgtType = 'glob', ret, jid, kwargs = {} } = load;
  const unserved = unservedKeywords.find((name) => Boolean(kwargs[name]));
  if (unserved !== undefined) {
    throw new MasterError('ERR_ARGS', `${unserved} is not supported; omit it`);
  }
  const { delimiter, metadata } = kwargs;
  return {
    ...{ tgt, fun, arg, tgtType },
    ...(typeof delimiter === 'string' && delimiter !== '' ? { delimiter } : {}),
    ...(isWireMap(metadata) ? { metadata } : {}),
    ...(ret ? { ret } : {}),
    ...(jid ? { jid } : {}),
  };
}

function isAuthentication(error: unknown): boolean {
  return codeOf(error)?.startsWith('ERR_EAUTH') === true;
}

/** Returns the data of a token in Salt's form. Times are in seconds since 1970. */
function tokenInfo(
  info: {
    readonly start: number;
    readonly expire: number;
    readonly user: string;
    readonly eauth: string;
    readonly groups: readonly string[];
  },
  token: string,
): WireMap {
  const { start, expire, user: name, eauth, groups } = info;
  const times = { start: start / 1000, expire: expire / 1000 };
  const more = groups.length === 0 ? {} : { groups: [...groups] };
  return { ...times, name, eauth, token, ...more };
}
