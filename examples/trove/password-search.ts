/** Looks for passwords where they must not be. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Master } from '#master';
import type { ControlPlane } from '../control-plane.ts';

/** All events of a master, as text, until it is closed. */
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

/** What was searched, and in how many texts a password was. */
export interface SearchResult {
  readonly passwords: number;
  readonly events: number;
  /** Events of jobs that have the reference of a secret. */
  readonly references: number;
  readonly jobs: number;
  readonly files: number;
  readonly found: number;
}

/**
 * Searches events, jobs, and every file of the master and of instances, logs at `debug` among them.
 * @param folders of instances
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

/** Whether a password travelled, and was found nowhere. */
export const isNowhere = ({ references, found }: SearchResult): boolean =>
  references > 0 && found === 0;

function filesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((it) => it.isFile())
    .map((it) => path.join(it.parentPath, it.name));
}

/** Bytes as they are: passwords are ASCII. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    // It has gone meanwhile.
    return '';
  }
}
