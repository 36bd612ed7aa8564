import { watch } from 'node:fs';
import { keyPlaces, type PkiDir } from './pki-dir.ts';

const quietMs = 50;

/**
 * Watches the directories of keys, and tells which ids to look at again once it has been quiet
 * for a moment; `undefined`: all. Ends with the function given.
 */
export function watchPkiDir(
  dir: PkiDir,
  onDirty: (ids: readonly string[] | undefined) => void,
): () => void {
  const dirty = new Set<string>();
  let isAllDirty = false;
  let timer: NodeJS.Timeout | undefined;

  const flush = (): void => {
    onDirty(isAllDirty ? undefined : [...dirty]);
    dirty.clear();
    isAllDirty = false;
    timer = undefined;
  };
  const mark = (name: string | null): void => {
    if (name === null) isAllDirty = true;
    else if (!name.startsWith('.')) dirty.add(name);
    timer ??= setTimeout(flush, quietMs).unref();
  };
  const watchers = keyPlaces.map((place) =>
    watch(dir.directoryOf(place), { persistent: false }, (_type, name) => mark(name)).on(
      'error',
      () => mark(null),
    ),
  );
  return () => {
    clearTimeout(timer);
    for (const watcher of watchers) watcher.close();
  };
}
