import type { MigrationFinding } from './report.ts';

/** The finding about something that could not be read. */
export function unreadableFinding(file: string): MigrationFinding {
  return {
    outcome: 'refused',
    kind: 'file',
    name: 'unreadable',
    file,
    line: 0,
    meaning: 'It could not be read, so nothing is known of what it uses.',
    wayOut: 'Run the check as a user who may read it.',
  };
}
