import {
  isWireMap,
  type PayloadLimits,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { type MadeFrom, packMadeFrom, unpackMadeFrom } from './made-from.ts';

/** A pillar with what it is good for. */
export interface KeptPillar {
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  readonly lower: string;
  readonly rules: string;
  readonly madeFrom: MadeFrom;
  /** Packed, because as objects they take some ten times the room. */
  readonly pillar: Uint8Array;
  /** The same object where it is the same. */
  readonly proven: Uint8Array;
}

/** What was packed here is read again, whatever a peer may send. */
export const keptLimits: PayloadLimits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: 1000,
  maxElements: Number.POSITIVE_INFINITY,
};

/** As it is stored; {@link unpackKept} reads it. */
export function packKept({
  saltenv,
  pillarenv,
  lower,
  rules,
  madeFrom,
  pillar,
  proven,
}: KeptPillar): WireMap {
  return {
    saltenv: saltenv ?? null,
    pillarenv: pillarenv ?? null,
    lower,
    rules,
    from: packMadeFrom(madeFrom),
    pillar,
    ...(proven === pillar ? {} : { proven }),
  };
}

/** @returns `undefined` for what is none */
export function unpackKept(value: WireValue): KeptPillar | undefined {
  if (!isWireMap(value)) return undefined;
  const { saltenv, pillarenv, lower, rules, from, pillar, proven = pillar } = value;
  const madeFrom = unpackMadeFrom(from);
  if (madeFrom === undefined || typeof lower !== 'string' || typeof rules !== 'string') {
    return undefined;
  }
  if (!(pillar instanceof Uint8Array) || !(proven instanceof Uint8Array)) return undefined;
  return {
    saltenv: typeof saltenv === 'string' ? saltenv : undefined,
    pillarenv: typeof pillarenv === 'string' ? pillarenv : undefined,
    lower,
    rules,
    madeFrom,
    pillar,
    proven,
  };
}
