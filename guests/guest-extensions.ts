import type { BridgeExtension } from '#heat-bridge';
import { hasAgentKeys } from './guests-section.ts';

/** Extensions of `guests/`, in the order in which they are opened. */
export const guestExtensions: readonly BridgeExtension[] = [
  {
    name: 'deployments',
    sections: ['deployments'],
    requires: ['commands', 'signals'],
    after: ['enrolment'],
    catalogKey: 'deployments',
    load: async () => (await import('./deployments/deployments-extension.ts')).deploymentsExtension,
  },
  {
    name: 'murano',
    sections: ['murano'],
    requires: ['commands'],
    after: ['enrolment'],
    isConfigured: ({ murano }) => murano !== undefined,
    catalogKey: 'murano',
    load: async () => (await import('./murano/murano-extension.ts')).muranoExtension,
  },
  {
    name: 'metadata-agent',
    sections: ['guests'],
    requires: ['enrolment'],
    isConfigured: ({ guests }) => hasAgentKeys(guests),
    load: async () => (await import('./metadata-agent/agent-extension.ts')).agentExtension,
  },
  {
    name: 'data-spaces',
    sections: ['guests'],
    requires: ['enrolment'],
    after: ['signals', 'metadata-agent'],
    isConfigured: ({ guests }) => guests !== undefined,
    load: async () => (await import('./data-spaces/data-spaces-extension.ts')).dataSpacesExtension,
  },
];
