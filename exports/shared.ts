/**
 * `saltbridge/shared`: one master that several processes of a host share.
 *
 * @packageDocumentation
 */

export { joinMaster } from '#server';
