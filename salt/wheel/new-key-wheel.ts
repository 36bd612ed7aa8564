/**
 * Generates key pairs [salt/wheel/key.py]. A private key is only returned to the caller, not
 * stored.
 */

import { type Auth, type InProcessApi, keyOwner, type MasterApi } from '#master';
import type { WireMap } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { count, flag, optional, required, text } from '../functions/parameters.ts';

type CreatedKey = NonNullable<Awaited<ReturnType<MasterApi['keys']['create']>>>;

interface NewKeyWheelDeps {
  readonly keys: Pick<InProcessApi['keys'], 'create'>;
  readonly generator: Pick<Auth['generator'], 'generateFor'>;
}

/** Minimum key size in bits. As in Salt, a smaller size in a request is raised to this minimum. */
const leastBits = 2048;

export function newKeyWheel({ keys, generator }: NewKeyWheelDeps): FunctionTable {
  return {
    'key.gen': masterFunction({
      summary: 'Creates and returns a key pair. The master does not store or accept it.',
      parameters: { id_: optional(text), keysize: optional(count, leastBits) },
      isConfidential: true,
      call: async ({ keysize }, { by }) =>
        pairOf(await generator.generateFor(keyOwner(by), bitsOf(keysize))),
    }),
    'key.gen_accept': masterFunction({
      summary:
        'Creates a key pair for a minion and accepts it; returns nothing if a key of the minion is already accepted.',
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
  return Math.max(keysize, leastBits);
}

function pairOf({ privatePem, publicPem }: CreatedKey): WireMap {
  return { priv: privatePem, pub: publicPem };
}
