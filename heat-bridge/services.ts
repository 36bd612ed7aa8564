/** Keys of the services that extensions of the bridge provide to each other. */

import { defineService, type ServiceKey } from '#master';
import type { EntriesOf } from './catalog/entry-kind.ts';
import type { CommandApi } from './commands/command-api.ts';
import type { Catalog } from './commands/command-catalog.ts';
import type { CommandRunner } from './commands/command-runner.ts';
import type { EnrolmentModule } from './enroll/open-enrolment.ts';
import type { PlanApi } from './plans/plan-api.ts';
import type { SignalsModule } from './signals/open-signals.ts';

/** Service of the extension `commands` for other extensions of the bridge. */
export interface CommandsService {
  readonly api: CommandApi;
  readonly plans: PlanApi;
  readonly catalog: Catalog;
  readonly runner: CommandRunner;
  /** Returns the catalog entries of one kind, for example all entries of `deployments:`. */
  readonly entriesOf: EntriesOf;
  /**
   * Creates a runner for the commands of another catalog. For example, an extension can run
   * commands that the catalog files do not define.
   */
  createRunner(catalog: Catalog): CommandRunner;
}

export const bridgeServices: {
  /** Key of the service {@link CommandsService}. */
  readonly commands: ServiceKey<CommandsService>;
  readonly signals: ServiceKey<SignalsModule>;
  readonly enrolment: ServiceKey<EnrolmentModule>;
} = {
  commands: defineService('bridge-commands'),
  signals: defineService('bridge-signals'),
  enrolment: defineService('bridge-enrolment'),
};
