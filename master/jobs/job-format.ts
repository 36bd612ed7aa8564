/** How jobs and returns lie in the store: maps in Salt's local MessagePack encoding. */
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import {
  packLocal,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { StoreError } from '../../store/index.ts';
import type { JobRecord, JobReturn } from './job.ts';

const Texts = Type.Array(Type.String());
const AnyValue = Type.Unsafe<WireValue>(Type.Unknown());

const recordSchema = Compile(
  Type.Object({
    jid: Type.String(),
    fun: Type.Union([Type.String(), Texts]),
    arg: Type.Array(AnyValue),
    tgt: Type.Union([Type.String(), Texts]),
    tgtType: Type.String(),
    user: Type.String(),
    minions: Texts,
    missing: Texts,
    publishedAt: Type.Number(),
    selfMade: Type.Boolean(),
    skipped: Type.Optional(Type.Number()),
    metadata: Type.Optional(Type.Unsafe<WireMap>(Type.Object({}))),
    requestedBy: Type.Optional(Type.String()),
  }),
);

const returnSchema = Compile(
  Type.Object({
    minion: Type.String(),
    resource: Type.Optional(Type.String()),
    fun: Type.Union([Type.String(), Texts]),
    return: AnyValue,
    retcode: AnyValue,
    success: AnyValue,
    out: Type.Optional(Type.String()),
    receivedAt: Type.Number(),
  }),
);

export function packRecord(record: JobRecord): Buffer {
  const map: WireMap = {
    ...record,
    fun: typeof record.fun === 'string' ? record.fun : [...record.fun],
    arg: [...record.arg],
    tgt: typeof record.tgt === 'string' ? record.tgt : [...record.tgt],
    minions: [...record.minions],
    missing: [...record.missing],
  };
  return packLocal(map);
}

/** @throws StoreError ERR_STORE_CORRUPT */
export function unpackRecord(bytes: Uint8Array): JobRecord {
  const value = unpackLocal(bytes);
  if (recordSchema.Check(value)) return value;
  throw new StoreError('ERR_STORE_CORRUPT', 'a stored job has an unknown form');
}

export function packReturn(result: JobReturn): Buffer {
  const map: WireMap = {
    ...result,
    fun: typeof result.fun === 'string' ? result.fun : [...result.fun],
  };
  return packLocal(map);
}

/** @throws StoreError ERR_STORE_CORRUPT */
export function unpackReturn(bytes: Uint8Array): JobReturn {
  const value = unpackLocal(bytes);
  if (returnSchema.Check(value)) return value;
  throw new StoreError('ERR_STORE_CORRUPT', 'a stored return has an unknown form');
}
