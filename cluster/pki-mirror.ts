import { hash } from 'node:crypto';
import type { Logger } from 'pino';
import { type Auth, type KeyState, keyPlaces, type PkiDir, watchPkiDir } from '#master';
import { forEachFile } from './for-each-file.ts';

/** A minion key and its state. */
interface PlacedKey {
  readonly place: Exclude<KeyState, 'denied'>;
  readonly pem: string;
}

const statesInOrder = ['rejected', 'accepted', 'pending'] as const;
/** Maximum number of minion ids in one log message. */
const maxNamed = 20;

/**
 * Writes the minion keys of a cluster to a PKI directory, where Salt's tools expect them. If Salt's
 * tools change the directory, makes the same change to the keys of the cluster. At the start, the
 * keys of the cluster replace the keys in the directory.
 */
export class PkiMirror {
  readonly #dir: PkiDir;
  readonly #keys: Auth['keys'];
  readonly #log: Logger;
  /** Last known content of the directory, by minion id. */
  readonly #known = new Map<string, string>();
  readonly #endings: (() => void)[] = [];
  #last: Promise<void> = Promise.resolve();

  constructor(dir: PkiDir, keys: Auth['keys'], log: Logger) {
    this.#dir = dir;
    this.#keys = keys;
    this.#log = log;
  }

  /**
   * Writes the keys of the cluster to the directory, and begins to mirror changes.
   * @throws KeyError ERR_PKI_DIR
   */
  async start(): Promise<void> {
    const files = new Map<string, PlacedKey>();
    for (const place of [...statesInOrder].reverse()) {
      for (const [id, { pem }] of this.#dir.readAll(place)) files.set(id, { place, pem });
    }
    const { accepted, pending, rejected } = this.#keys.list();
    const ids = new Set([
      ...files.keys(),
      ...[accepted, pending, rejected].flat().map(({ id }) => id),
    ]);
    const differing: string[] = [];
    const toWrite: string[] = [];
    for (const id of ids) {
      const file = files.get(id);
      this.#known.set(id, markOf(file));
      if (markOf(file) === markOf(this.#own(id))) continue;
      if (file !== undefined) differing.push(id);
      toWrite.push(id);
    }
    // The first start of a new member writes the keys of all minions.
    await forEachFile(toWrite, (id) => this.#write(id));
    if (differing.length > 0) {
      const fields = { count: differing.length, minions: differing.slice(0, maxNamed) };
      this.#log.warn(
        fields,
        'some keys in pki_dir differed from those of the cluster, and were replaced',
      );
    }
    this.#endings.push(
      this.#keys.onChange(({ id }) => this.#enqueue(() => this.#write(id), id)),
      watchPkiDir(this.#dir, (changed) => void this.#lookAt(changed)),
    );
  }

  async close(): Promise<void> {
    for (const end of this.#endings) end();
    await this.#last;
  }

  async #lookAt(changed: readonly string[] | undefined): Promise<void> {
    const ids = changed ?? [...this.#known.keys()];
    for (const id of ids) this.#enqueue(() => this.#compare(id), id);
  }

  #enqueue(work: () => Promise<void>, id: string): void {
    this.#last = this.#last.then(work).catch((error: unknown) => {
      this.#log.error(
        { minion: id, err: error },
        'cannot synchronise pki_dir with the keys of the cluster',
      );
    });
  }

  #own(id: string): PlacedKey | undefined {
    const known = this.#keys.get(id);
    return known && { place: known.state, pem: known.pem };
  }

  /** Writes the cluster's key of one minion to the directory. */
  async #write(id: string): Promise<void> {
    const own = this.#own(id);
    const denied = this.#keys.denied(id);
    if (own !== undefined) await this.#dir.write(own.place, id, own.pem);
    if (denied !== undefined) await this.#dir.write('denied', id, denied.pem);
    for (const place of keyPlaces) {
      const isThere = place === 'denied' ? denied !== undefined : place === own?.place;
      if (!isThere) await this.#dir.remove(place, id);
    }
    if (own === undefined) this.#known.delete(id);
    else this.#known.set(id, markOf(own));
  }

  /** Applies the change that another program has made to the key files of one minion. */
  async #compare(id: string): Promise<void> {
    const file = await this.#read(id);
    const mark = markOf(file);
    if (mark === (this.#known.get(id) ?? markOf(undefined))) return;
    this.#known.set(id, mark);
    if (mark === markOf(this.#own(id))) return;
    try {
      await this.#keys.exclusive(id, () => this.#takeOver(id, file));
      this.#log.info(
        { minion: id, to: file?.place ?? null },
        'applied a change of a minion key that another program made in pki_dir',
      );
    } finally {
      await this.#write(id);
    }
  }

  async #takeOver(id: string, file: PlacedKey | undefined): Promise<void> {
    const own = this.#own(id);
    if (file === undefined) {
      if (own !== undefined) await this.#keys.delete(id, { from: [own.place] });
      return;
    }
    const isSame = own?.pem.trim() === file.pem.trim();
    switch (file.place) {
      case 'accepted':
        if (isSame && own !== undefined) await this.#keys.accept(id, { from: [own.place] });
        else await this.#keys.acceptNew(id, file.pem);
        return;
      case 'rejected':
        if (isSame && own !== undefined) await this.#keys.reject(id, { from: [own.place] });
        else if (own === undefined) await this.#keys.rejectNew(id, file.pem);
        return;
      case 'pending':
        if (own === undefined) await this.#keys.pend(id, file.pem);
        return;
    }
  }

  async #read(id: string): Promise<PlacedKey | undefined> {
    for (const place of statesInOrder) {
      const file = await this.#dir.read(place, id);
      if (file !== undefined) return { place, pem: file.pem };
    }
    return undefined;
  }
}

function markOf(key: PlacedKey | undefined): string {
  if (key === undefined) return '';
  return `${key.place} ${hash('sha256', key.pem, 'base64')}`;
}
