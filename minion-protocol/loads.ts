/**
 * The loads that minions send and get, by their `cmd` [WIRE 6.1, 9.3 to 9.5, 11.2; salt/master.py].
 * Fields keep their wire names. Unknown fields are tolerated: every release adds some.
 */

import { Type } from 'typebox';
import { compileSchema } from '#runtime';
import { emptyWireMap, isWireMap, type WireMap, type WireValue, wireBytes } from './payload.ts';
import { isValidMinionId } from './request.ts';

/** A load that has been looked at, or which of its fields is wrong. */
export type ParsedLoad<Load> =
  | { readonly ok: true; readonly value: Load }
  | {
      readonly ok: false;
      /** Names the field and what was expected; nothing of the content. */
      readonly reason: string;
    };

const maxKeyText = 16 * 1024;
const maxCipherBytes = 1024;
const maxTagLength = 1024;
const maxEvents = 1000;

const name = Type.String({ minLength: 1, maxLength: 1024 });
const shortText = Type.Optional(Type.Union([Type.Null(), Type.String({ maxLength: 1024 })]));
const anything = Type.Unknown();

/** What a schema's compiled check offers. */
interface Check {
  Check(value: unknown): boolean;
  Errors(value: unknown): Iterable<{ readonly instancePath: string; readonly keyword: string }>;
}

function firstError(check: Check, load: WireMap): string | undefined {
  if (check.Check(load)) return undefined;
  for (const { instancePath, keyword } of check.Errors(load)) {
    // The path has only names from our schema and indices: no map with free keys is looked into.
    return `${instancePath === '' ? 'load' : instancePath.slice(1)}: ${keyword}`;
  }
  return 'load: malformed';
}

const authSchema = compileSchema(
  Type.Object({
    cmd: Type.Literal('_auth'),
    /** As sent: not yet checked. */
    id: Type.String(),
    nonce: Type.Optional(Type.String()),
    /** PEM, as sent. */
    pub: Type.String({ minLength: 1, maxLength: maxKeyText }),
    enc_algo: Type.Optional(Type.String({ maxLength: 64 })),
    sig_algo: Type.Optional(Type.String({ maxLength: 64 })),
  }),
);

/** Reads the load of a sign-in request; `undefined` if a field has the wrong type or size. */
export function parseAuthLoad(load: WireMap) {
  // The minion's token is encrypted to the master key that it knows.
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

/** `_return`: what a job came to on one minion. */
export type ReturnLoad = WireMap & {
  /** In versions 0 and 2 whatever the sender wrote. */
  id: string;
  /** A jid; `req` for a job that the minion started itself; `nocache` for an event only. */
  jid: string;
  return: WireValue;
  /** A list for several functions. */
  fun?: string | string[];
  fun_args?: WireValue;
  /** An integer; for several functions a map or list. */
  retcode?: WireValue;
  /** A boolean; for several functions a map or list. */
  success?: WireValue;
  /** Name of an outputter. */
  out?: string | null;
  user?: string | null;
  metadata?: WireValue;
  master_id?: string | null;
  /** Name of the schedule that ran it. */
  schedule?: string | null;
  /** What it is the result of, where that is not the minion itself but what it manages (3008). */
  resource_id?: string | null;
};

function isReturnLoad(load: WireMap): load is ReturnLoad {
  return returnSchema.Check(load) && isValidMinionId(load.id);
}

/** Reads the load of `_return`. */
export function parseReturnLoad(load: WireMap): ParsedLoad<ReturnLoad> {
  if (isReturnLoad(load)) return { ok: true, value: load };
  return { ok: false, reason: firstError(returnSchema, load) ?? 'id: not a minion id' };
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

/** An event as a minion asks for it: tags are not yet judged. */
interface RequestedEvent {
  readonly tag: string;
  readonly data: WireValue;
}

/** `_minion_event`, in either of its forms. */
export type MinionEventLoad = {
  /** Ours: the answer is the id of the signal that the event became, or `null`. */
  readonly wantsSignalId: boolean;
} & (
  | {
      readonly form: 'single';
      readonly tag: string;
      /** The whole load: Salt fires it as the event's data. */
      readonly data: WireMap;
    }
  | {
      readonly form: 'batch';
      readonly events: readonly RequestedEvent[];
      /** Each event is fired once more as `<pretag>/<tag>`. */
      readonly pretag: string | undefined;
    }
  | { readonly form: 'empty' }
);

/** Reads the load of `_minion_event`. */
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

/** `_pillar`. */
export interface PillarLoad {
  /** `undefined` when it is missing: the answer is an empty pillar. */
  readonly id: string | undefined;
  /** `undefined` when they are missing: the answer is an empty pillar. */
  readonly grains: WireMap | undefined;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /** Empty when it is not a map. */
  readonly pillar_override: WireMap;
  readonly extra_minion_data: WireMap;
  /** `2` from every release of the range. */
  readonly ver: string | undefined;
  readonly clean_cache: boolean;
  /** Modules of pillar that the minion names (`pillar.ext`), some of them. */
  readonly ext: readonly string[];
}

/** Names of modules that are read of one request. */
const maxModules = 10;

/** Reads the load of `_pillar`. */
export function parsePillarLoad(load: WireMap): ParsedLoad<PillarLoad> {
  const reason = firstError(pillarSchema, load);
  if (reason !== undefined) return { ok: false, reason };
  const value: PillarLoad = {
    id: isValidMinionId(load.id) ? load.id : undefined,
    grains: textKeyed(load.grains),
    saltenv: optionalText(load.saltenv),
    pillarenv: optionalText(load.pillarenv),
    pillar_override: textKeyed(load.pillar_override) ?? emptyWireMap(),
    extra_minion_data: textKeyed(load.extra_minion_data) ?? emptyWireMap(),
    ver: optionalText(load.ver),
    clean_cache: load.clean_cache === true,
    ext: moduleNames(load.ext),
  };
  return { ok: true, value };
}

function moduleNames(ext: WireValue | undefined): readonly string[] {
  const names = Object.keys(textKeyed(ext) ?? {});
  return names.filter((module) => /^\w{1,64}$/.test(module)).slice(0, maxModules);
}

/** A map with its text keys only: no grain or pillar key that can be asked for is anything else. */
function textKeyed(value: WireValue | undefined): WireMap | undefined {
  if (!(value instanceof Map)) return isWireMap(value) ? value : undefined;
  const map = emptyWireMap();
  for (const [key, item] of value) if (typeof key === 'string') map[key] = item;
  return map;
}

/** The load of a publication [WIRE 11.2]. */
export type PublicationLoad = WireMap & {
  fun: string | string[];
  /** For several functions a list of lists. Keywords come last, as a map with `__kwarg__`. */
  arg: WireValue[];
  /** A list for `list`; text or a list for `compound`. */
  tgt: string | string[];
  /** Absent means `glob`. */
  tgt_type?: string;
  jid: string;
  /** Returner names with commas between them. */
  ret?: string;
  user?: string;
  /** Timeout in seconds for lower masters. */
  to?: number;
  /** Only where it is not `:`. */
  delimiter?: string;
  /** The minion that asked for it. */
  id?: string;
  master_id?: string;
  metadata?: WireMap;
  ret_config?: string;
  ret_kwargs?: WireMap;
  module_executors?: WireValue[];
  executor_opts?: WireMap;
  auth_list?: WireValue[];
  /** Minions of 3008 and later fire `salt/job/<jid>/start/<id>` before they begin. */
  start_event?: boolean;
};

function optionalText(value: WireValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function textOr(value: WireValue | undefined, fallback: string): string {
  return typeof value === 'string' ? value : fallback;
}
