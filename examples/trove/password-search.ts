/** Searches for passwords in places that must not contain them. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Master } from '#master';
import type { ControlPlane } from '../control-plane.ts';

/** Records all events of a master as text, until it is closed. */
export class EventTexts {
  readonly texts: string[] = [];
  readonly #end = new AbortController();

  constructor(master: Master) {
    void this.#read(master);
  }

  async #read(master: Master): Promise<void> {
    for await (const event of await master.events.subscribe({}, this.#end.signal)) {
      this.texts.push(JSON.stringify(event));
    }
  }

  close(): void {
    this.#end.abort();
  }
}

/** Numbers of the searched texts, and of the texts that contain a password. */
export interface SearchResult {
  readonly passwords: number;
  readonly events: number;
  /** Number of events of jobs that contain the reference of a secret. */
  readonly references: number;
  readonly jobs: number;
  readonly files: number;
  readonly found: number;
}

/**
 * Searches events, jobs, and all files of the master and of the instances, including logs at the
 * level `debug`.
 * @param folders - folders of the instances
 */
export async function searchFor(
  passwords: readonly string[],
  { server, directory }: ControlPlane,
  events: readonly string[],
  folders: readonly string[],
): Promise<SearchResult> {
  const { jobs } = server.master;
  const list = await jobs.list();
  const shown = await Promise.all(list.map(({ jid }) => jobs.show(jid)));
  const files = [directory, ...folders].flatMap(filesBelow);
  const texts = [...events, JSON.stringify(shown), ...files.map(contentOf)];
  return {
    passwords: passwords.length,
    events: events.length,
    references: events.filter((it) => it.includes('saltbridge_secrets')).length,
    jobs: list.length,
    files: files.length,
    found: texts.filter((text) => passwords.some((it) => text.includes(it))).length,
  };
}

/** Whether a secret was transferred, and no text contains a password. */
export const isNowhere = ({ references, found }: SearchResult): boolean =>
  references > 0 && found === 0;

function filesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((it) => it.isFile())
    .map((it) => path.join(it.parentPath, it.name));
}

/** Returns the bytes of a file as text. Passwords are ASCII, so any encoding is sufficient. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    // The file was deleted in the meantime.
    return '';
  }
}
