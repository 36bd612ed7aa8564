import type { BridgeExtension } from './bridge-extension.ts';

/** Extensions of the bridge in `heat-bridge/`, in the order in which they are opened. */
export const ownExtensions: readonly BridgeExtension[] = [
  {
    name: 'commands',
    sections: ['catalog', 'runs'],
    load: async () => (await import('./commands/commands-extension.ts')).commandsExtension,
  },
  {
    name: 'enrolment',
    sections: ['enroll'],
    load: async () => (await import('./enroll/enrolment-extension.ts')).enrolmentExtension,
  },
  {
    name: 'signals',
    sections: ['handles'],
    after: ['enrolment'],
    load: async () => (await import('./signals/signals-extension.ts')).signalsExtension,
  },
];
