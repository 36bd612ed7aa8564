/**
 * Codec for fields of stored rows that contain values of Salt as JSON. A value whose type JSON
 * lacks is stored as a map whose only key names the type, for example `$bytes`.
 */

import { readMarkedJson, writeMarkedJson } from '#master';
import type { FieldCodec } from '#store';

/**
 * Decodes a row of the first storage format. The row is JSON in which keys such as `$bytes` name
 * the types that JSON lacks.
 */
export function fromMarkedJson(bytes: Uint8Array): unknown {
  return readMarkedJson(Buffer.from(bytes).toString('utf8'));
}

export const markedJsonField: FieldCodec = {
  pack: (value) => Buffer.from(writeMarkedJson(Object(value))),
  unpack: fromMarkedJson,
};
