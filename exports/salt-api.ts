/**
 * `saltbridge/salt-api`: Salt's HTTP API (`rest_cherrypy`) for a master in this process, or for a
 * master that `saltbridge/client` has connected to.
 *
 * @packageDocumentation
 */

export {
  createSaltApi,
  type SaltApi,
  SaltApiError,
  type SaltApiErrorCode,
  type SaltApiOptions,
  type SaltApiPlugin,
  type SaltApiPluginContext,
  type SaltApiTls,
} from '#salt-api';
