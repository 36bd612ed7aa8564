export { AuthenticationError, AuthorizationError } from './errors.ts';
export { lintConfiguredPolicy } from './open-policy.ts';
export type { PolicyGate } from './policy-gate.ts';
export { TokenWatch } from './token-watch.ts';
export { tokensPrefix } from './tokens.ts';
export { requireInert, requireValid } from './user-gate.ts';
export { hasFullRights } from './user-session.ts';
export { createUsers, type TargetBounds, type Users } from './users.ts';
