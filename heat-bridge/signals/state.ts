/** The part of a master's store that signals use. */

/** A step of {@link SignalState.write}. */
export type StateOperation =
  | {
      readonly op: 'put';
      readonly key: readonly string[];
      readonly value: Uint8Array;
      readonly expiresAt?: number;
      readonly ifRevision?: number;
    }
  | { readonly op: 'delete'; readonly key: readonly string[] };

export interface SignalState {
  get(key: readonly string[]): Promise<{ readonly value: Uint8Array } | undefined>;
  list(prefix: readonly string[]): AsyncIterable<{ readonly value: Uint8Array }>;
  write(operations: readonly StateOperation[]): Promise<unknown>;
  seal(plain: Uint8Array): Uint8Array;
  unseal(sealed: Uint8Array): Uint8Array;
}

/** Whether a write was refused because another was there first. */
export function isOvertaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_REVISION';
}
