/** Fields of stored rows with wire values in plain objects, as JSON with type marks. */

import { readMarkedJson, writeMarkedJson } from '#master';
import type { FieldCodec } from '#store';

/** Decodes JSON with type marks, the form of rows without a version. */
export function fromMarkedJson(bytes: Uint8Array): unknown {
  return readMarkedJson(Buffer.from(bytes).toString('utf8'));
}

export const markedJsonField: FieldCodec = {
  pack: (value) => Buffer.from(writeMarkedJson(Object(value))),
  unpack: fromMarkedJson,
};
