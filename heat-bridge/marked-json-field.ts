/** Fields of stored rows that hold values of the wire in plain objects, as JSON with marks. */

import { readMarkedJson, writeMarkedJson } from '#master';
import type { FieldCodec } from '#store';

/** Reads JSON with marks, as rows without a version are. */
export function fromMarkedJson(bytes: Uint8Array): unknown {
  return readMarkedJson(Buffer.from(bytes).toString('utf8'));
}

export const markedJsonField: FieldCodec = {
  pack: (value) => Buffer.from(writeMarkedJson(Object(value))),
  unpack: fromMarkedJson,
};
