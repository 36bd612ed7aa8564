/**
 * Codecs of stored rows. The module that stores a row defines its schema and its upgrades from
 * earlier versions. Types, encoding and checks are derived from the definition.
 *
 * A row begins with the byte 0xC1 and its version. Neither MessagePack nor UTF-8 uses that byte. So
 * a row that begins with any other byte is of version 0, which had no version number.
 */

import { Packr, RESERVE_START_SPACE } from 'msgpackr';
import Type, { type Static, type TSchema } from 'typebox';
import { compileSchema, type SchemaCheck } from '#runtime';
import { StoreError } from './errors.ts';
import { checkRowBody } from './row-limits.ts';
import type { Entry } from './store.ts';

/** Codec of a field. Only for values that MessagePack cannot represent exactly. */
export interface FieldCodec {
  pack(value: unknown): Uint8Array;
  unpack(bytes: Uint8Array): unknown;
}

/** Fields of a row of an earlier version. */
export type OldRow = Readonly<Record<string, unknown>>;

/** Definition of a stored row. */
export interface RowDefinition<S extends TSchema> {
  /** Name of the row in error messages, for example `job`. */
  readonly name: string;
  /** Fields of the current version. */
  readonly schema: S;
  /**
   * Codecs of the fields that have another encoding than MessagePack, for example values from
   * minions.
   */
  readonly packed?: Readonly<Record<string, FieldCodec>>;
  /**
   * Converts a row of version 0 to the fields of version 1. Default: rows of version 0 are
   * rejected.
   */
  readonly unversioned?: (bytes: Uint8Array) => unknown;
  /**
   * Whether bytes that begin with 0xC1 are a row of version 0. Needed only if rows of version 0 can
   * begin with 0xC1. Bytes with another first byte are always a row of version 0.
   */
  readonly isUnversioned?: (bytes: Uint8Array) => boolean;
  /**
   * Functions that upgrade a row by one version. The function at index n upgrades from version n +
   * 1 to n + 2.
   */
  readonly upgrades?: readonly ((old: OldRow) => OldRow)[];
}

/** Encodes and decodes one kind of stored row. */
export interface RowCodec<T> {
  /** Version of the rows that `encode` writes. */
  readonly version: number;
  /** Encodes a row in the current version. Fields that are `undefined` are left out. */
  encode(row: T): Buffer;
  /**
   * Decodes a row of this or an earlier version. Byte values are views into `value`.
   * @throws StoreError ERR_STORE_CORRUPT for a damaged row, ERR_STORE_VERSION for a row of a later
   * version
   */
  decode(entry: Pick<Entry, 'key' | 'value'>): T;
}

/** Type of the rows of a codec. */
export type RowOf<C> = C extends RowCodec<infer T> ? T : never;

/** Schema of a byte field. */
export const Bytes = Type.Refine(
  Type.Unsafe<Uint8Array>(Type.Unknown()),
  (value) => value instanceof Uint8Array,
);

/** Schema of a list of strings. */
export const Texts = Type.Unsafe<readonly string[]>(Type.Array(Type.String()));

/** Parses a row of version 0 that contains JSON. */
export function fromJson(bytes: Uint8Array): unknown {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
}

/** Codec that stores a field as JSON. */
export const jsonField: FieldCodec = {
  pack: (value) => Buffer.from(JSON.stringify(value)),
  unpack: fromJson,
};

const marker = 0xc1;
const headBytes = 2;

/**
 * Maximum size in bytes of a row that is encoded in the shared buffer. For a larger row, a
 * temporary buffer is allocated.
 */
const slabBytes = 8192;

const packr = new Packr({ useRecords: false, variableMapSize: true });

/** Defines a stored row. Its current version is 1 plus the number of upgrades. */
export function defineRow<S extends TSchema>(
  definition: RowDefinition<S>,
): RowCodec<Readonly<Static<S>>> {
  return new SchemaRowCodec(definition);
}

class SchemaRowCodec<S extends TSchema> implements RowCodec<Readonly<Static<S>>> {
  readonly version: number;
  readonly #definition: RowDefinition<S>;
  readonly #packed: readonly (readonly [string, FieldCodec])[];
  readonly #check: SchemaCheck<S>;

  constructor(definition: RowDefinition<S>) {
    this.#definition = definition;
    this.#check = compileSchema(definition.schema);
    this.#packed = Object.entries(definition.packed ?? {});
    this.version = 1 + (definition.upgrades?.length ?? 0);
  }

  encode(row: Readonly<Static<S>>): Buffer {
    const fields = this.#packed.length === 0 ? row : this.#pack({ ...Object(row) });
    const bytes = packr.pack(fields, RESERVE_START_SPACE | headBytes);
    bytes[0] = marker;
    bytes[1] = this.version;
    if (bytes.length > slabBytes) packr.useBuffer(Buffer.allocUnsafe(slabBytes));
    return bytes;
  }

  decode({ key, value }: Pick<Entry, 'key' | 'value'>): Readonly<Static<S>> {
    const version = this.#versionOf(value);
    if (version === undefined) throw this.#corrupt(key);
    if (version > this.version) {
      throw new StoreError(
        'ERR_STORE_VERSION',
        `the ${this.#definition.name} in row ${key.join('/')} has version ${version}; this program reads versions up to ${this.version}`,
      );
    }
    let row: unknown;
    try {
      row = this.#upgrade(version, value);
    } catch (cause) {
      throw this.#corrupt(key, cause);
    }
    if (this.#check.Check(row)) return row;
    const [first] = this.#check.Errors(row);
    throw this.#corrupt(key, new TypeError(`${first?.instancePath}: ${first?.message}`));
  }

  /**
   * Returns the version of a row. If the row begins with the byte 0xC1, the next byte is the
   * version. Returns `undefined` if this byte is 0, because the row is then damaged.
   */
  #versionOf(value: Uint8Array): number | undefined {
    if (this.#definition.isUnversioned?.(value) === true) return 0;
    if (value[0] !== marker) return 0;
    return value[1] === 0 ? undefined : value[1];
  }

  #upgrade(version: number, value: Uint8Array): unknown {
    let row = version === 0 ? this.#readUnversioned(value) : this.#read(value.subarray(headBytes));
    const { upgrades = [] } = this.#definition;
    for (const upgrade of upgrades.slice(Math.max(0, version - 1))) row = upgrade(fieldsOf(row));
    return row;
  }

  #readUnversioned(value: Uint8Array): unknown {
    const { unversioned } = this.#definition;
    if (unversioned === undefined)
      throw new TypeError(
        'a row of the store has no version number, so this program cannot read the row',
      );
    return unversioned(value);
  }

  #read(body: Uint8Array): unknown {
    checkRowBody(body);
    const row: unknown = packr.unpack(body);
    if (this.#packed.length === 0) return row;
    const fields: Record<string, unknown> = Object(row);
    for (const [name, codec] of this.#packed) {
      const packed = fields[name];
      if (packed instanceof Uint8Array) fields[name] = codec.unpack(packed);
    }
    return fields;
  }

  /**
   * Encodes the fields that have a codec, in place. Strings, numbers and other scalar values stay
   * unchanged, because the codec and MessagePack encode them in the same way.
   */
  #pack(fields: Record<string, unknown>): Record<string, unknown> {
    let size = slabBytes;
    for (const [name, codec] of this.#packed) {
      const value = fields[name];
      if (value === null || (typeof value !== 'object' && typeof value !== 'bigint')) continue;
      const packed = codec.pack(value);
      fields[name] = packed;
      size += packed.length;
    }
    if (size > 2 * slabBytes) packr.useBuffer(Buffer.allocUnsafe(size));
    return fields;
  }

  #corrupt(key: Entry['key'], cause?: unknown): StoreError {
    const message = `the ${this.#definition.name} in row ${key.join('/')} is damaged`;
    return new StoreError(
      'ERR_STORE_CORRUPT',
      message,
      cause === undefined ? undefined : { cause },
    );
  }
}

function fieldsOf(row: unknown): OldRow {
  if (typeof row === 'object' && row !== null) return { ...row };
  throw new TypeError('not a map');
}
