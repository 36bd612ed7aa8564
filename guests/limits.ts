import { defineLimits } from '#runtime';

/** Limits of services for guests. */
export const guestLimits = defineLimits('guests', {
  vendordataRate: {
    unit: 'requests for vendordata',
    owner: 'instance',
    rate: { perSecond: 0.5, burst: 20 },
    effect: 'Further requests are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  identityRate: {
    unit: 'requests for user-data by identity',
    owner: 'instance',
    rate: { perSecond: 0.5, burst: 20 },
    effect: 'Further requests are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  identityRequests: {
    unit: 'requests for user-data by identity in progress',
    owner: 'project',
    perOwner: 20,
    total: 1_000,
    effect: 'Further requests are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  identityLookUps: {
    unit: 'questions to Nova and Keystone at a time',
    owner: 'none',
    total: 16,
    effect: 'Further requests wait.',
  },
  foundInstances: {
    unit: 'instances that an agent has looked up by address',
    owner: 'none',
    total: 4_096,
    effect: 'The least recently used entry is evicted.',
  },
  notificationRate: {
    unit: 'notifications of OpenStack',
    owner: 'none',
    rate: { perSecond: 20, burst: 200 },
    effect: 'Further notifications are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  waitingPlans: {
    unit: 'execution plans of Murano that wait',
    owner: 'instance',
    perOwner: 64,
    total: 10_000,
    effect: 'Further plans are rejected.',
    code: 'ERR_COMMAND_BUSY',
  },
  signalRate: {
    unit: 'signals over HTTPS',
    owner: 'minion',
    rate: { perSecond: 1, burst: 60 },
    effect: 'Further signals are rejected.',
    code: 'ERR_EAUTH_LIMIT',
  },
  waitingReads: {
    unit: 'reads that wait for a value',
    owner: 'minion',
    perOwner: 16,
    total: 10_000,
    effect: 'Further reads are rejected.',
    code: 'ERR_DATA_QUOTA',
  },
  spaceBytes: {
    unit: 'bytes of registrations of data spaces',
    owner: 'project',
    amounts: 'see deployments.md',
    effect: 'The registration is rejected.',
    code: 'ERR_DATA_QUOTA',
  },
  etcdRequests: {
    unit: 'requests to etcd at a time',
    owner: 'none',
    total: 64,
    effect: 'Further requests wait.',
  },
  deployments: {
    unit: 'deployments that run at a time',
    owner: 'none',
    total: 200,
    option: 'saltbridge:bridge:deployments:max_running',
    effect: 'Further deployments wait.',
  },
});
