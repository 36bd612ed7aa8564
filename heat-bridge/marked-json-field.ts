/**
 * Fields of stored rows that contain values of Salt's wire format in plain objects. They are stored
 * as JSON with marks for the types.
 */

import { readMarkedJson, writeMarkedJson } from '#master';
import type { FieldCodec } from '#store';

/** Decodes a row of the first storage format: JSON with marks for the types. */
export function fromMarkedJson(bytes: Uint8Array): unknown {
  return readMarkedJson(Buffer.from(bytes).toString('utf8'));
}

export const markedJsonField: FieldCodec = {
  pack: (value) => Buffer.from(writeMarkedJson(Object(value))),
  unpack: fromMarkedJson,
};
