export type { Auth } from './auth.ts';
export { openAutoAccept } from './auto-accept.ts';
export { keyErrors } from './key-errors.ts';
export {
  createKeyLifecycle,
  type HeldKey,
  type KeyLifecycle,
  RetiredIds,
  Revocation,
  revokeLostKeys,
} from './key-lifecycle.ts';
export { type KeyChange, type KeyStore, literalGlob, openConfiguredKeys } from './key-store.ts';
export { type KeySurvey, type SurveyedKey, surveyKeys, surveyOwnKeys } from './key-survey.ts';
export {
  createKeysApi,
  keyMarks,
  type OfflineKeys,
  type OwnKey,
  openOfflineKeys,
} from './keys-api.ts';
export { type HeardFrom, LastHeard } from './last-heard.ts';
export {
  type MasterKeyPair,
  type MasterKeySigner,
  openMasterKeys,
  preparePrivateDirectories,
  readMasterSignature,
} from './master-keys.ts';
export { type KeyPlace, placeDirectories } from './pki-directory.ts';
export { PublishKey, secretsPrefix } from './publish-key.ts';
export {
  DropConnectionError,
  type Handler,
  type Reply,
  send,
  sendLater,
  type VerifiedRequest,
} from './request.ts';
export { RsaPool } from './rsa-pool.ts';
export { createSeal, openSeal, type Seal, SessionKeys } from './session-keys.ts';
export { createFullnessCheck, type KeyAcceptanceHook, type OfferedKey, SignIn } from './sign-in.ts';
export { SignatureCheck } from './signature-check.ts';
export { TokenCheck } from './token-check.ts';
export { readPins, VersionCheck, VersionPins } from './version-pins.ts';
