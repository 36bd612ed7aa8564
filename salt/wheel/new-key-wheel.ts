/** Key generation [salt/wheel/key.py]; private keys are returned to the caller only. */

import type { InProcessApi, MasterApi } from '#master';
import { generateKeyPair, type WireMap } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { count, flag, optional, required, text } from '../functions/parameters.ts';

type CreatedKey = NonNullable<Awaited<ReturnType<MasterApi['keys']['create']>>>;

interface NewKeyWheelDeps {
  readonly keys: Pick<InProcessApi['keys'], 'create'>;
}

/** Smaller ones are made so large, as in Salt. */
const leastBits = 2048;

export function newKeyWheel({ keys }: NewKeyWheelDeps): FunctionTable {
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
        const created = await keys.create({ id, bits: bitsOf(keysize), force }, by);
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
