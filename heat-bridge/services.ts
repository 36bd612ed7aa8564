/** Services that extensions of the bridge provide to each other. */

import { defineService, type ServiceKey } from '#master';
import type { CommandsService } from './commands/commands-service.ts';
import type { EnrolmentModule } from './enroll/open-enrolment.ts';
import type { SignalsModule } from './signals/open-signals.ts';

export const bridgeServices: {
  /** Commands and plans. */
  readonly commands: ServiceKey<CommandsService>;
  readonly signals: ServiceKey<SignalsModule>;
  readonly enrolment: ServiceKey<EnrolmentModule>;
} = {
  commands: defineService('bridge-commands'),
  signals: defineService('bridge-signals'),
  enrolment: defineService('bridge-enrolment'),
};
