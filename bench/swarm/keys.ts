import type { KeyObject } from 'node:crypto';
import { generateKeyPair, generateKeyString, parsePrivateKey } from '#minion-protocol';
import { minionToken } from '#minion-protocol/x931.ts';

/** A key pair that many simulated minions share: making thousands would take longer than the bench. */
export interface SwarmKey {
  readonly privateKey: KeyObject;
  readonly publicPem: string;
  /** What the minion's process is known by. */
  readonly token: string;
  /** Proof of identity in each request. */
  readonly proof: Uint8Array;
}

/** A pair as text, to hand to another process. */
export interface SwarmKeyText {
  readonly privatePem: string;
  readonly publicPem: string;
}

export function makeKeyTexts(count: number): Promise<SwarmKeyText[]> {
  return Promise.all(Array.from({ length: count }, () => generateKeyPair(2048)));
}

export function importKey({ privatePem, publicPem }: SwarmKeyText): SwarmKey {
  const privateKey = parsePrivateKey(privatePem);
  return { privateKey, publicPem, token: generateKeyString(), proof: minionToken(privateKey) };
}

/** The id of a simulated minion. */
export function swarmId(index: number): string {
  return `swarm-${String(index).padStart(5, '0')}`;
}
