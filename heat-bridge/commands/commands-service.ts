import type { EntriesOf } from '../catalog/entry-kind.ts';
import type { PlanApi } from '../plans/plan-api.ts';
import type { CommandApi } from './command-api.ts';
import type { Catalog } from './command-catalog.ts';
import type { CommandRunner } from './command-runner.ts';

/** What other extensions of the bridge use of commands and plans. */
export interface CommandsService {
  readonly api: CommandApi;
  readonly plans: PlanApi;
  readonly catalog: Catalog;
  readonly runner: CommandRunner;
  /** Returns the entries of the catalog files that another extension reads. */
  readonly entriesOf: EntriesOf;
  /** Creates a runner of commands that are not in the catalog. */
  createRunner(catalog: Catalog): CommandRunner;
}
