import type { Logger } from 'pino';
import type { LiveConfig, MasterConfig } from '#config';
import {
  emptyWireMap,
  isWireMap,
  parsePillarLoad,
  parseReturnLoad,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { InFlight, type Throttle } from '#runtime';
import {
  type MergeOptions,
  type MineQuery,
  type MineReader,
  type MineStore,
  mergeOverride,
  type PillarSource,
} from '#salt/pillar/index.ts';
import type { PeerPublisher, PeerRunner } from '#salt/runners/index.ts';
import { StoreError } from '#store';
import type { TargetRequest } from '../api/index.ts';
import {
  DropConnectionError,
  type Handler,
  type KeyStore,
  type Reply,
  type SignatureCheck,
  send,
  sendLater,
  type VerifiedRequest,
} from '../auth/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import type { FactsOfMinion, KnownResources, ReturnKeeper } from '../jobs/index.ts';
import type { Meter, RequestCounters } from '../metrics/index.ts';
import type { PolicyGate } from '../users/index.ts';
import { requestDigest } from './replay-cache.ts';

export interface ReturnHandlerOptions {
  readonly keeper: ReturnKeeper;
  readonly signatures: SignatureCheck;
  readonly counters: RequestCounters;
  readonly meter: Meter;
  /** Meters returns that are repeated or refused; the first one to a job counts against nothing. */
  readonly requestRate: Throttle;
  /** `return_bytes`: the largest return that is kept, bytes as sent. */
  readonly config: Pick<LiveConfig, 'current'>;
}

/**
 * `_return`: the result of a job [WIRE 9.4]. Minions take any answer for an acknowledgement, so
 * there is none for a return that could not be kept: without it they send again, three times in
 * all (`return_retry_tries`).
 */
export function returnHandler(options: ReturnHandlerOptions): Handler {
  return async (request) => {
    const { minionId, load, bytes } = request;
    const parsed = parseReturnLoad(
      bytes > options.config.current.limits.returnBytes ? withoutValue(load, options) : load,
    );
    if (minionId === undefined || !parsed.ok) {
      options.counters.count('malformed-return');
      return send(null);
    }
    const isPermitted = options.signatures.permits(request);
    if (isPermitted !== true && !(await isPermitted)) return send(false);
    const markOf = (): string => requestDigest(request);
    const outcome = await options.keeper.take(minionId, parsed.value, markOf).catch(notKept);
    if (outcome === 'stored' || outcome === 'told') {
      options.meter.countReturn();
      return send(null);
    }
    options.counters.count(
      outcome === 'repeated' ? 'repeated-return' : `return-${outcome.refused}`,
    );
    const isNext = options.requestRate.pass(minionId);
    if (isNext === false) throw new DropConnectionError('too-many-waiting');
    return sendLater(outcome === 'repeated' ? null : false, isNext);
  };
}

function notKept(cause: unknown): never {
  if (cause instanceof StoreError) throw new DropConnectionError('return-not-kept', { cause });
  throw cause;
}

/** In place of a value that is too large: the job says so, instead of waiting in vain. */
function withoutValue(load: WireMap, { config, counters }: ReturnHandlerOptions): WireMap {
  const maxBytes = config.current.limits.returnBytes;
  counters.count('return-bytes');
  const text = `The return is too large: more than ${maxBytes} bytes (return_bytes).`;
  return { ...load, return: text, retcode: 1, success: false, out: 'nested' };
}

/** What the handler of `_pillar` needs besides the provider. */
export interface PillarHandlerOptions {
  /** Largest request with its grains, bytes as sent (`grains_bytes`). */
  readonly maxGrainsBytes: number;
  /** How a pillar of the command line lies over the minion's own. */
  readonly merge: MergeOptions;
  /** Keeps what was asked with and what was answered, for targets (`minion_data_cache`). */
  readonly keepFacts: (facts: FactsOfMinion) => Promise<void>;
  readonly gate: PolicyGate;
  readonly counters: RequestCounters;
  readonly log: Logger;
}

/**
 * `_pillar`: the minion's own data, under a key of its own [WIRE 9.3]. A `pillar=` of its command
 * line is put over the answer and never kept; what the load asks for beyond that (sources,
 * versions) is not looked at [THREATS C-05, C-47, M-09].
 */
export function pillarHandler(source: PillarSource, options: PillarHandlerOptions): Handler {
  return async ({ minionId, load, bytes }): Promise<Reply> => {
    // protection: large-grains
    if (bytes > options.maxGrainsBytes) {
      options.counters.count('grains-bytes');
      return failure(`Grains may have ${options.maxGrainsBytes} bytes (grains_bytes).`);
    }
    const parsed = parsePillarLoad(load);
    if (minionId === undefined || !parsed.ok || parsed.value.grains === undefined) {
      return { kind: 'private', pillar: {} };
    }
    const { grains, saltenv, pillarenv, pillar_override: override } = parsed.value;
    const environment = pillarenv ?? saltenv;
    if (environment !== undefined) {
      const subject = { kind: 'minion', id: minionId } as const;
      const { gate } = options;
      const question = { subject, action: 'pillar', resource: { environment } } as const;
      // protection: pillar-environments
      if (gate.decide(question).effect === 'deny') {
        return failure(`No rule lets this minion have pillar of the environment ${environment}.`);
      }
    }
    try {
      // protection: pillar-by-grains
      const facts = { id: minionId, grains: { ...grains, id: minionId } };
      const { pillar, proven } = await source.provide({ ...facts, saltenv, pillarenv });
      await options.keepFacts({ ...facts, pillar, proven }).catch((error: unknown) => {
        // The minion works with its pillar all the same; targets go by what was known before.
        options.log.error({ minion: minionId, err: error }, 'minion data were not kept');
      });
      return { kind: 'private', pillar: mergeOverride(pillar, override, options.merge) };
    } catch (error) {
      options.log.error({ minion: minionId, err: error }, 'pillar failed');
      // protection: part-of-a-pillar
      return failure('The master could not make this pillar.');
    }
  };
}

/** Minions refuse to run states while their pillar has `_errors`. */
function failure(reason: string): Reply {
  return { kind: 'private', pillar: { _errors: [reason] } };
}

/** What top data may depend on. `id` is verified, all else is the minion's own word. */
interface TopsRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
}

/** State files by environment: `{ base: ['users', 'web.server'] }`. */
type Tops = Readonly<Record<string, readonly string[]>>;

/** Says what a minion's highstate has besides its top file: Salt's `master_tops`. */
export type TopsProvider = (request: TopsRequest) => Promise<Tops>;

/** `_master_tops`, and `_ext_nodes` as minions 3000 to 3002 call it [WIRE 9.2]. */
export function topsHandler(provider: TopsProvider, log: Logger): Handler {
  return async ({ minionId, load }) => {
    if (minionId === undefined) return send({});
    const opts = isWireMap(load.opts) ? load.opts : emptyWireMap();
    const grains = isWireMap(opts.grains) ? opts.grains : emptyWireMap();
    const saltenv = typeof opts.saltenv === 'string' ? opts.saltenv : undefined;
    try {
      const tops = await provider({ id: minionId, grains: { ...grains, id: minionId }, saltenv });
      return send(Object.fromEntries(Object.entries(tops).map(([env, sls]) => [env, [...sls]])));
    } catch (error) {
      // As in Salt: a provider that fails adds nothing, and the top file counts alone.
      log.error({ minion: minionId, err: error }, 'top data failed');
      return send({});
    }
  };
}

// The mine [WIRE 9.2, 9.6]. A minion changes only its own.

export interface MineHandlerOptions {
  readonly mine: MineStore;
  readonly reader: MineReader;
  readonly counters: RequestCounters;
}

/** The handlers by their `cmd`. */
export interface MineHandlers {
  readonly _mine: Handler;
  readonly _mine_get: Handler;
  readonly _mine_delete: Handler;
  readonly _mine_flush: Handler;
}

export function mineHandlers(options: MineHandlerOptions): MineHandlers {
  const { mine, counters } = options;
  return {
    _mine: async (request) => {
      const { data, clear } = request.load;
      if (request.minionId === undefined || !isWireMap(data)) return send({});
      const update = { data, clear: clear === true };
      // protection: mine-of-any
      const leftOut = await mine.update(request.minionId, update, requestDigest(request));
      for (const _fun of leftOut) counters.count('mine-bytes');
      return send(leftOut.length === 0);
    },
    _mine_get: async (request) => send(await answer(request, options)),
    _mine_delete: async (request) => {
      const { minionId, load } = request;
      if (minionId === undefined || typeof load.fun !== 'string') return send({});
      await mine.delete(minionId, load.fun, requestDigest(request));
      return send(true);
    },
    _mine_flush: async (request) => {
      if (request.minionId === undefined) return send({});
      await mine.flush(request.minionId, requestDigest(request));
      return send(true);
    },
  };
}

async function answer(
  { minionId, load }: VerifiedRequest,
  { reader, counters }: MineHandlerOptions,
): Promise<WireMap> {
  const query = toQuery(load);
  if (minionId === undefined || query === undefined) return {};
  const read = await reader.read(minionId, query);
  if (!read.ok) {
    counters.count(read.reason);
    return {};
  }
  if (read.isWithheld) counters.count('mine-withheld');
  return read.value;
}

function toQuery(load: WireMap): MineQuery | undefined {
  const target = toTarget(load);
  const { fun } = load;
  if (target === undefined) return undefined;
  if (typeof fun === 'string') return { target, funs: fun.split(','), isByFunction: false };
  return isTexts(fun) ? { target, funs: fun, isByFunction: true } : undefined;
}

/** `expr_form` is what minions call the type that know no other name for it. */
function toTarget({ tgt, tgt_type: tgtType, expr_form: form }: WireMap): TargetRequest | undefined {
  const type = tgtType ?? form ?? 'glob';
  if (typeof type !== 'string' || (typeof tgt !== 'string' && !isTexts(tgt))) return undefined;
  return { tgt, tgtType: type.toLowerCase() };
}

function isTexts(value: WireValue | undefined): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

// Jobs and runners of minions [WIRE 9.10]. A refusal is an empty map, as in Salt [WIRE 9.2].

export interface PeerHandlerOptions {
  readonly publisher: PeerPublisher;
  readonly runner: PeerRunner;
  readonly counters: RequestCounters;
}

/** The handlers by their `cmd`. */
export interface PeerHandlers {
  readonly minion_pub: Handler;
  readonly minion_publish: Handler;
  readonly minion_runner: Handler;
  readonly pub_ret: Handler;
  readonly _syndic_return: Handler;
}

/**
 * Requests of one minion that may wait for others at the same time. One that is repeated meanwhile
 * gets the same answer; afterwards it gets none, because answers may be large and are not kept.
 */
const maxWaiting = 16;

export function peerHandlers({ publisher, runner, counters }: PeerHandlerOptions): PeerHandlers {
  const waiting = new InFlight<WireValue>(maxWaiting);
  const wait = async (
    { minionId, load }: VerifiedRequest,
    mark: string | undefined,
    work: (minionId: string, load: WireMap, mark: string | undefined) => Promise<WireValue>,
  ): Promise<Reply> => {
    if (minionId === undefined) return send({});
    const value = await waiting.run(minionId, mark, () => work(minionId, load, mark));
    if (value !== undefined) return send(value);
    counters.count('peer-busy');
    return send({});
  };
  const handler =
    (work: (minionId: string, request: VerifiedRequest) => Promise<WireMap>): Handler =>
    async (request) =>
      send(request.minionId === undefined ? {} : await work(request.minionId, request));
  return {
    minion_pub: handler((minionId, request) =>
      publisher.publish(minionId, request.load, requestDigest(request)),
    ),
    minion_publish: (request) =>
      wait(request, requestDigest(request), (...asked) => publisher.publishAndWait(...asked)),
    minion_runner: (request) =>
      wait(request, requestDigest(request), (...asked) => runner.run(...asked, request.version)),
    pub_ret: handler((minionId, { load }) => publisher.returns(minionId, load.jid)),
    // Of masters below this one, which are not served.
    _syndic_return: async () => send(false),
  };
}

/**
 * `_master_opts`: the master's options for states; with `env_only` those of environments
 * [WIRE 9.7].
 */
export function masterOptsHandler(config: LiveConfig, envs: () => readonly string[]): Handler {
  const { topFileMergingStrategy, envOrder, defaultTop } = config.fixed;
  const environments: WireMap = {
    top_file_merging_strategy: topFileMergingStrategy,
    env_order: [...envOrder],
    default_top: defaultTop,
  };
  let states = stateOptions(config.all);
  config.onChange(() => {
    states = stateOptions(config.all);
  });
  return async ({ load }) => {
    // Names alone: where the files lie is not the minion's business.
    const fileRoots = Object.fromEntries(envs().map((env) => [env, []]));
    const always = { file_roots: fileRoots, ...environments };
    return send(load.env_only === true ? always : { ...always, ...states });
  };
}

function stateOptions(config: MasterConfig): WireMap {
  return {
    renderer: config.renderer,
    failhard: config.failhard,
    state_top: config.stateTop,
    state_top_saltenv: config.stateTopSaltenv,
    nodegroups: Object.fromEntries(
      Object.entries(config.nodegroups).map(([name, group]) => [name, listOrPlain(group)]),
    ),
    state_auto_order: config.stateAutoOrder,
    state_events: config.stateEvents,
    state_aggregate: listOrPlain(config.stateAggregate),
    jinja_env: config.jinjaEnv,
    jinja_sls_env: config.jinjaSlsEnv,
    jinja_lstrip_blocks: config.jinjaLstripBlocks,
    jinja_trim_blocks: config.jinjaTrimBlocks,
  };
}

function listOrPlain(value: string | boolean | readonly string[]): WireValue {
  return typeof value === 'object' ? [...value] : value;
}

// `_register_resources`: resources that a minion of 3008 manages [WIRE 23.3].

export interface ResourceHandlerOptions {
  readonly resources: KnownResources;
  readonly bus: EventBus;
  readonly counters: RequestCounters;
  /** `minion_data_cache_events`. */
  readonly config: Pick<LiveConfig, 'current'>;
}

export function resourcesHandler({
  resources,
  bus,
  counters,
  config,
}: ResourceHandlerOptions): Handler {
  return async ({ minionId, load }) => {
    if (minionId === undefined) return send({});
    const isKept = await resources.keep(minionId, {
      resources: load.resources,
      grains: load.resource_grains,
    });
    if (!isKept) {
      counters.count('resources-refused');
      return send(false);
    }
    if (config.current.minionDataCacheEvents) {
      bus.fire(tags.resourcesRefreshed(minionId), { 'Resource cache refresh': minionId });
    }
    return send(true);
  };
}

/**
 * `revoke_auth`: a minion gives its own key up, where `allow_minion_key_revoke` or a rule permits
 * it. Salt gives the load back where nothing does [WIRE 9.2].
 */
export function revokeHandler(keys: KeyStore, gate: PolicyGate): Handler {
  return async ({ minionId, isProven, load }) => {
    if (!isProven || minionId === undefined) return send(load);
    const subject = { kind: 'minion', id: minionId } as const;
    const resource = { operation: 'revoke' };
    const { effect } = gate.decide({ subject, action: 'key', resource });
    if (effect === 'deny') return send(load);
    await keys.exclusive(minionId, () => keys.delete(minionId));
    return send(true);
  };
}
