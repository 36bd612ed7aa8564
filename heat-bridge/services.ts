/** Services that extensions of the bridge provide to each other. */

import { defineService } from '#master';
import type { CommandsService } from './commands/commands-service.ts';
import type { EnrolmentModule } from './enroll/open-enrolment.ts';
import type { SignalsModule } from './signals/open-signals.ts';

export const bridgeServices = {
  /** Commands and plans. */
  commands: defineService<CommandsService>('bridge-commands'),
  signals: defineService<SignalsModule>('bridge-signals'),
  enrolment: defineService<EnrolmentModule>('bridge-enrolment'),
} as const;
