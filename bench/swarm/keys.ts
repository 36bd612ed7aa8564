import type { KeyObject } from 'node:crypto';
import { generateKeyPair, generateKeyString, parsePrivateKey } from '#minion-protocol';
import { minionToken } from '#minion-protocol/x931.ts';

/**
 * A key pair that many simulated minions share. Generating thousands of key pairs would take longer
 * than the benchmark.
 */
export interface SwarmKey {
  readonly privateKey: KeyObject;
  readonly publicPem: string;
  /** Token that identifies the minion's process. */
  readonly token: string;
  /** Proof of identity (`tok`) that each request contains. */
  readonly proof: Uint8Array;
}

/** A key pair as text, to be passed to another process. */
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

/** Returns the id of the simulated minion with this index. */
export function swarmId(index: number): string {
  return `swarm-${String(index).padStart(5, '0')}`;
}
