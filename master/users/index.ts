export {
  AuthenticationError,
  AuthorizationError,
  authenticationErrors,
  authorizationErrors,
} from './errors.ts';
export { learnedText } from './learn.ts';
export { lintConfiguredPolicy, type PolicyGate } from './policy.ts';
export { TokenWatch } from './tokens.ts';
export { createUsers, type TargetBounds, type Users } from './users.ts';
