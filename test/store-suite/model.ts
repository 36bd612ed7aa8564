import type { Entry, Key, Operation } from '#store';

/**
 * A simple store. The tests compare engines with it. It is a list that is searched from one end to
 * the other.
 */
export class Model {
  #entries: Entry[] = [];
  readonly streams: Map<string, Uint8Array[]> = new Map();
  #revision = 0;

  get(key: Key): Entry | undefined {
    return this.#entries.find((entry) => compareKeys(entry.key, key) === 0);
  }

  list(prefix: Key): Entry[] {
    return this.#entries
      .filter((entry) => isUnder(entry.key, prefix))
      .sort((a, b) => compareKeys(a.key, b.key));
  }

  /** Executes a write. Returns the new revision, or `undefined` if a condition is not met. */
  write(operations: readonly Operation[]): number | undefined {
    if (!operations.every((operation) => this.#holds(operation))) return undefined;
    this.#revision++;
    for (const operation of operations) this.#apply(operation);
    return this.#revision;
  }

  expire(now: number): void {
    this.#entries = this.#entries.filter(({ expiresAt }) => (expiresAt ?? now + 1) > now);
  }

  #holds(operation: Operation): boolean {
    if (operation.op === 'delete-prefix' || operation.op === 'append') return true;
    if (operation.ifRevision === undefined) return true;
    return (this.get(operation.key)?.revision ?? 0) === operation.ifRevision;
  }

  #apply(operation: Operation): void {
    if (operation.op === 'require') return;
    if (operation.op === 'append') {
      const records = this.streams.get(operation.stream) ?? [];
      this.streams.set(operation.stream, [...records, operation.value]);
      return;
    }
    this.#entries = this.#entries.filter(({ key }) =>
      operation.op === 'delete-prefix'
        ? !isUnder(key, operation.prefix)
        : compareKeys(key, operation.key) !== 0,
    );
    if (operation.op === 'put') {
      const { key, value, expiresAt } = operation;
      const entry = { key, value, revision: this.#revision };
      this.#entries.push(expiresAt === undefined ? entry : { ...entry, expiresAt });
    }
  }
}

/** Compares keys as the documentation of `Key` defines. */
function compareKeys(a: Key, b: Key): number {
  for (const [index, segment] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    const order = Buffer.compare(Buffer.from(segment), Buffer.from(other));
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

function isUnder(key: Key, prefix: Key): boolean {
  return prefix.every((segment, index) => key[index] === segment);
}
