/** Wheel functions that make key pairs [salt/wheel/key.py]; private keys are told to the caller alone. */
import { generateKeyPair, type WireMap } from '../../minion-protocol/index.ts';
import type { CreatedKey, KeysApi } from '../api.ts';
import { type FunctionTable, masterFunction } from '../runners/function.ts';
import { count, flag, optional, required, text } from '../runners/parameters.ts';

/** What these functions need. */
export interface NewKeyWheelParts {
  readonly keys: Pick<KeysApi, 'create'>;
}

/** Smaller ones are made so large, as in Salt. */
const leastBits = 2048;

export function newKeyWheel({ keys }: NewKeyWheelParts): FunctionTable {
  return {
    'key.gen': masterFunction({
      summary: 'Makes a key pair that the master neither keeps nor accepts.',
      parameters: { id_: optional(text), keysize: optional(count, leastBits) },
      isConfidential: true,
      call: async ({ keysize }) => pairOf(await generateKeyPair(bitsOf(keysize))),
    }),
    'key.gen_accept': masterFunction({
      summary:
        'Makes a key pair for a minion and accepts it; nothing where one is accepted already.',
      parameters: {
        id_: required(text),
        keysize: optional(count, leastBits),
        force: optional(flag, false),
      },
      isConfidential: true,
      call: async ({ id_: id, keysize, force }, { by }) => {
        const asked = { id, bits: bitsOf(keysize), force, ...(by === undefined ? {} : { by }) };
        const created = await keys.create(asked);
        return created === null ? {} : pairOf(created);
      },
    }),
  };
}

function bitsOf(keysize: number): number {
  return Math.min(Math.max(keysize, leastBits), 8192);
}

function pairOf({ privatePem, publicPem }: CreatedKey): WireMap {
  return { priv: privatePem, pub: publicPem };
}
