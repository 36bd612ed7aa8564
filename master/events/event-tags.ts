/**
 * Tags of Salt's events [WIRE 14.2], and of saltbridge's own events, which begin with
 * `saltbridge/`.
 */

export const tags = {
  auth: 'salt/auth',
  key: 'salt/key',
  rotation: 'key',
  jobNew: (jid: string): string => `salt/job/${jid}/new`,
  jobPublish: (jid: string): string => `salt/job/${jid}/publish`,
  jobReturn: (jid: string, minionId: string): string => `salt/job/${jid}/ret/${minionId}`,
  stateError: (jid: string, minionId: string, fun: string): string =>
    `salt/job/${jid}/sub/${minionId}/error/${fun}`,
  presencePresent: 'salt/presence/present',
  presenceChange: 'salt/presence/change',
  /**
   * A minion sent an event that no rule permits. For each minion and tag, the master publishes this
   * notice at most once in 60 seconds.
   */
  signalDenied: (minionId: string): string => `saltbridge/denied/${minionId}`,
  /** A reaction was not executed. */
  reaction: (kind: 'dropped' | 'denied'): string => `saltbridge/reaction/${kind}`,
  resourcesRefreshed: (minionId: string): string => `resource/refresh/${minionId}`,
  dataRefreshed: (minionId: string): string => `minion/refresh/${minionId}`,
  /**
   * The disk of the store became full. The tag `saltbridge/store/room` reports that it has free
   * space again.
   */
  storeFull: 'saltbridge/store/full',
  storeRoom: 'saltbridge/store/room',
  /**
   * The disk of the audit log became full. The tag `saltbridge/audit/room` reports that it has free
   * space again.
   */
  auditFull: 'saltbridge/audit/full',
  auditRoom: 'saltbridge/audit/room',
} as const;
