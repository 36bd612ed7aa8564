/**
 * What MessagePack of Salt can say [WIRE 2.2]. Text and bytes are one family on the wire: bytes
 * that are valid UTF-8 arrive as text.
 */
export type WireValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | WireDateTime
  | WireExtension
  | WireValue[]
  | WireMap
  | Map<WireValue, WireValue>;

/**
 * A map whose keys are all text. Decoded ones inherit nothing, so `__proto__` is an ordinary key.
 * Like every JavaScript object it lists keys that look like array indices first; a `Map` packs in
 * its own order.
 */
export interface WireMap {
  [key: string]: WireValue;
}

const isoForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/;

/** A date and time without a zone, extension type 78 [salt/payload.py]. */
export class WireDateTime {
  /** ISO 8601 with microseconds: `2024-01-02T03:04:05.678901`. */
  readonly text: string;

  /** @throws TypeError when `text` has another form */
  constructor(text: string) {
    if (!isoForm.test(text)) throw new TypeError('expected YYYY-MM-DDTHH:MM:SS.ffffff');
    this.text = text;
  }

  toJSON(): string {
    return this.text;
  }
}

/** A MessagePack extension that Salt gives no meaning to. */
export class WireExtension {
  /** −128 to 127. */
  readonly code: number;
  readonly data: Uint8Array;

  constructor(code: number, data: Uint8Array) {
    this.code = code;
    this.data = data;
  }
}

/** Whether a value is a map with only text keys. */
export function isWireMap(value: WireValue | undefined): value is WireMap {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Map) &&
    !(value instanceof Uint8Array) &&
    !(value instanceof WireDateTime) &&
    !(value instanceof WireExtension)
  );
}

/** V8 makes hash tables of objects whose prototype is null, some five times as dear. */
const nothing: object = Object.freeze(Object.create(null));

/** An empty map that inherits nothing: `__proto__` and `constructor` are keys like any other. */
export function emptyWireMap(): WireMap {
  // protection: prototypes
  return Object.create(nothing);
}

/** Whether the object inherits nothing but what every object does: no instance of a class. */
export function isPlainObject(value: object): value is WireMap {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === nothing || prototype === null || prototype === Object.prototype;
}

/**
 * The bytes of a field that is bytes by meaning: on the wire they arrive as text whenever they
 * happen to be valid UTF-8 [WIRE 2.1]. `undefined` when the value is neither.
 */
export function wireBytes(value: WireValue | undefined): Uint8Array | undefined {
  if (typeof value === 'string') return Buffer.from(value, 'utf8');
  return value instanceof Uint8Array ? value : undefined;
}
