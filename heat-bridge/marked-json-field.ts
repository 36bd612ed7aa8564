/**
 * Codec for fields of stored rows: objects that contain values of Salt which JSON lacks, for
 * example bytes. The fields are stored as JSON, in which marks give the types of these values.
 */

import { readMarkedJson, writeMarkedJson } from '#master';
import type { FieldCodec } from '#store';

/**
 * Decodes a row of the first storage format: JSON, in which marks give the types that JSON lacks.
 */
export function fromMarkedJson(bytes: Uint8Array): unknown {
  return readMarkedJson(Buffer.from(bytes).toString('utf8'));
}

export const markedJsonField: FieldCodec = {
  pack: (value) => Buffer.from(writeMarkedJson(Object(value))),
  unpack: fromMarkedJson,
};
