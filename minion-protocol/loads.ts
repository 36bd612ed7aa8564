/**
 * Types and parsers of the loads of minion requests, and the type of a publication's load [WIRE
 * 6.1, 9.3 to 9.5, 11.2; salt/master.py]. Fields keep their wire names. Unknown fields are
 * accepted, because every Salt release adds some.
 */

import { Type } from 'typebox';
import { compileSchema } from '#runtime';
import { isValidMinionId } from './request.ts';
import { emptyWireMap, isWireMap, type WireMap, type WireValue, wireBytes } from './wire-value.ts';

/** Result of parsing a load: the load, or the reason for rejecting it. */
export type ParsedLoad<Load> =
  | { readonly ok: true; readonly value: Load }
  | {
      readonly ok: false;
      /**
       * Name of the invalid field and the violated rule. It contains no part of the field's value.
       */
      readonly reason: string;
    };

const maxKeyText = 16 * 1024;
const maxCipherBytes = 1024;
const maxTagLength = 1024;
const maxEvents = 1000;

const name = Type.String({ minLength: 1, maxLength: 1024 });
const shortText = Type.Optional(Type.Union([Type.Null(), Type.String({ maxLength: 1024 })]));
const anything = Type.Unknown();

/** Methods of a compiled schema that this module uses. */
interface Check {
  Check(value: unknown): boolean;
  Errors(value: unknown): Iterable<{ readonly instancePath: string; readonly keyword: string }>;
}

function firstError(check: Check, load: WireMap): string | undefined {
  if (check.Check(load)) return undefined;
  for (const { instancePath, keyword } of check.Errors(load)) {
    // The path consists of names from the schema and of indexes. The schema inspects no map with
    // arbitrary keys.
    return `${instancePath === '' ? 'load' : instancePath.slice(1)}: ${keyword}`;
  }
  return 'load: malformed';
}

const authSchema = compileSchema(
  Type.Object({
    cmd: Type.Literal('_auth'),
    /** Minion id as sent. {@link parseAuthLoad} does not check its form. */
    id: Type.String(),
    nonce: Type.Optional(Type.String()),
    /** Public key in PEM, as sent. */
    pub: Type.String({ minLength: 1, maxLength: maxKeyText }),
    enc_algo: Type.Optional(Type.String({ maxLength: 64 })),
    sig_algo: Type.Optional(Type.String({ maxLength: 64 })),
  }),
);

/**
 * Parses the load of a sign-in request. Returns `undefined` if a field has the wrong type or size.
 */
export function parseAuthLoad(load: WireMap) {
  // The minion encrypts its token with the master key that it has stored.
  const token = wireBytes(load.token);
  if (load.token !== undefined && (token === undefined || token.length > maxCipherBytes)) {
    return undefined;
  }
  const { autosign_grains: grains } = load;
  if (!authSchema.Check(load)) return undefined;
  return { ...load, token, autosignGrains: isWireMap(grains) ? grains : undefined };
}

const returnSchema: Check = compileSchema(
  Type.Object({
    id: name,
    jid: Type.String({ minLength: 1, maxLength: 64 }),
    return: anything,
    fun: Type.Optional(Type.Union([name, Type.Array(name, { maxItems: 1000 })])),
    out: shortText,
    user: shortText,
    master_id: shortText,
    schedule: shortText,
    resource_id: shortText,
  }),
);

/** Load of `_return`: the result of a job on one minion. */
export type ReturnLoad = WireMap & {
  /** Id of the minion. In protocol versions 0 to 2, only the token (`tok`) proves it. */
  id: string;
  /**
   * Job id. `req` stands for a job that the minion started itself. `nocache` stands for a return
   * that is published as an event and not stored.
   */
  jid: string;
  return: WireValue;
  /** Function name, or a list for a job of several functions. */
  fun?: string | string[];
  fun_args?: WireValue;
  /** Return code: an integer; for a job of several functions, a map or list. */
  retcode?: WireValue;
  /** Whether the job succeeded: a boolean; for a job of several functions, a map or list. */
  success?: WireValue;
  /** Name of the outputter, with which Salt displays the result. */
  out?: string | null;
  user?: string | null;
  metadata?: WireValue;
  master_id?: string | null;
  /** Name of the schedule that started the job. */
  schedule?: string | null;
  /**
   * Id of the managed resource to which the result belongs (Salt 3008). Absent if the result
   * belongs to the minion itself.
   */
  resource_id?: string | null;
};

function isReturnLoad(load: WireMap): load is ReturnLoad {
  return returnSchema.Check(load) && isValidMinionId(load.id);
}

/** Parses the load of `_return`. */
export function parseReturnLoad(load: WireMap): ParsedLoad<ReturnLoad> {
  if (isReturnLoad(load)) return { ok: true, value: load };
  return { ok: false, reason: firstError(returnSchema, load) ?? 'id: must be a valid minion id' };
}

const eventSchema: Check = compileSchema(
  Type.Object({
    tag: Type.Optional(Type.String({ minLength: 1, maxLength: maxTagLength })),
    pretag: Type.Optional(
      Type.Union([Type.Null(), Type.String({ minLength: 1, maxLength: maxTagLength })]),
    ),
    events: Type.Optional(
      Type.Array(Type.Object({ tag: Type.String({ minLength: 1, maxLength: maxTagLength }) }), {
        maxItems: maxEvents,
      }),
    ),
  }),
);

/** An event that a minion asks the master to fire. The policy has not decided about its tag yet. */
interface RequestedEvent {
  readonly tag: string;
  readonly data: WireValue;
}

/** Parsed load of `_minion_event`: one event, a batch of events, or none. */
export type MinionEventLoad = {
  /**
   * Whether the minion requested a reply with the id of the stored signal. The minion requests it
   * with the field `signal_id`, which only saltbridge has. The reply is `null` if the event is not
   * stored as a signal.
   */
  readonly wantsSignalId: boolean;
} & (
  | {
      readonly form: 'single';
      readonly tag: string;
      /**
       * The whole load without `signal_id`. Like Salt, the master uses it as the data of the event.
       */
      readonly data: WireMap;
    }
  | {
      readonly form: 'batch';
      readonly events: readonly RequestedEvent[];
      /**
       * Prefix for a second tag. If it is set, each event is fired twice: with its tag, and with
       * `<pretag>/<tag>`.
       */
      readonly pretag: string | undefined;
    }
  | { readonly form: 'empty' }
);

/** Parses the load of `_minion_event`. */
export function parseMinionEventLoad(load: WireMap): ParsedLoad<MinionEventLoad> {
  const reason = firstError(eventSchema, load);
  if (reason !== undefined) return { ok: false, reason };
  return { ok: true, value: minionEvents(load) };
}

function minionEvents(load: WireMap): MinionEventLoad {
  const { signal_id: asked, ...data } = load;
  const wantsSignalId = asked === true;
  const { events, tag } = data;
  if (Array.isArray(events)) {
    const pretag = optionalText(data.pretag);
    const requested = events.filter(isWireMap).map(requestedEvent);
    return { wantsSignalId, form: 'batch', events: requested, pretag };
  }
  if (typeof tag !== 'string') return { wantsSignalId, form: 'empty' };
  return { wantsSignalId, form: 'single', tag, data };
}

function requestedEvent(event: WireMap): RequestedEvent {
  return { tag: textOr(event.tag, ''), data: event.data === undefined ? event : event.data };
}

const pillarSchema: Check = compileSchema(
  Type.Object({ id: Type.Optional(name), saltenv: shortText, pillarenv: shortText }),
);

/** Load of `_pillar`. */
export interface PillarLoad {
  /** Minion id. If it is missing, the reply is an empty pillar. */
  readonly id: string | undefined;
  /** Grains of the minion. If they are missing, the reply is an empty pillar. */
  readonly grains: WireMap | undefined;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /**
   * Pillar values that the minion sends to override the master's. Empty if the field is not a map.
   */
  readonly pillar_override: WireMap;
  /** Version of the pillar request. All supported Salt releases send `2`. */
  readonly ver: string | undefined;
  readonly clean_cache: boolean;
  /** Names of pillar modules that the minion requests (`pillar.ext`), at most ten. */
  readonly ext: readonly string[];
}

/** Maximum number of pillar modules that are read from one request. */
const maxModules = 10;

/**
 * Parses the load of `_pillar`.
 * @param maxNames - maximum number of entries that the caller accepts in each map. From a longer
 * map, only the first `maxNames + 1` entries are read, so that the caller can reject the map
 */
export function parsePillarLoad(load: WireMap, maxNames: number): ParsedLoad<PillarLoad> {
  const reason = firstError(pillarSchema, load);
  if (reason !== undefined) return { ok: false, reason };
  const value: PillarLoad = {
    id: isValidMinionId(load.id) ? load.id : undefined,
    grains: textKeyed(load.grains, maxNames),
    saltenv: optionalText(load.saltenv),
    pillarenv: optionalText(load.pillarenv),
    pillar_override: textKeyed(load.pillar_override, maxNames) ?? emptyWireMap(),
    ver: optionalText(load.ver),
    clean_cache: load.clean_cache === true,
    ext: moduleNames(load.ext, maxNames),
  };
  return { ok: true, value };
}

function moduleNames(ext: WireValue | undefined, maxNames: number): readonly string[] {
  const names = Object.keys(textKeyed(ext, maxNames) ?? {});
  return names.filter((module) => /^\w{1,64}$/.test(module)).slice(0, maxModules);
}

/**
 * Returns a map without the entries whose key is not text, or `undefined` if the value is not a
 * map. Grains and pillar are looked up only by text keys. Of a `Map`, it reads at most the first
 * `maxNames + 1` entries with a text key, because a copy of many entries takes long.
 */
function textKeyed(value: WireValue | undefined, maxNames: number): WireMap | undefined {
  if (!(value instanceof Map)) return isWireMap(value) ? value : undefined;
  const map = emptyWireMap();
  let names = 0;
  for (const [key, item] of value) {
    if (typeof key !== 'string') continue;
    map[key] = item;
    names += 1;
    if (names > maxNames) break;
  }
  return map;
}

/** Load of a publication [WIRE 11.2]. */
export type PublicationLoad = WireMap & {
  fun: string | string[];
  /**
   * Arguments of the function. If there are several functions, this is a list with one list of
   * arguments for each function. Keyword arguments are the last value in the list of their
   * function, as a map with `__kwarg__`.
   */
  arg: WireValue[];
  /** Target: text, except for the target types `list` (a list) and `compound` (text or a list). */
  tgt: string | string[];
  /** Target type. Default: `glob`. */
  tgt_type?: string;
  jid: string;
  /** Returner names, separated by commas. */
  ret?: string;
  user?: string;
  /** Timeout for syndics, in seconds. */
  to?: number;
  /** Delimiter of grain and pillar targets. Present only if it is not `:`. */
  delimiter?: string;
  /** Id of the minion that requested the job from the master. Absent if a user requested it. */
  id?: string;
  master_id?: string;
  metadata?: WireMap;
  ret_config?: string;
  ret_kwargs?: WireMap;
  module_executors?: WireValue[];
  executor_opts?: WireMap;
  auth_list?: WireValue[];
  /**
   * Whether minions fire the event `salt/job/<jid>/start/<id>` before they run the function.
   * Supported from Salt 3008 on.
   */
  start_event?: boolean;
};

function optionalText(value: WireValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function textOr(value: WireValue | undefined, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}
