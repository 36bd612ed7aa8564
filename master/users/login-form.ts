/**
 * This module checks the form of credentials: a short user name, a password, and the name of a
 * backend [THREATS A-04, C-14].
 */

const maxName = 256;
const maxPassword = 1024;
/** Maximum length of a JWT, in characters. The tokens of users with many groups are long. */
const maxToken = 16_384;
/** Characters that end a line or are not visible. */
const control = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** Whether credentials have a form that backends can process. Accepts any input. */
export function areCredentials(
  { username, password }: { readonly username: unknown; readonly password: unknown },
  eauth: string,
): boolean {
  return isUserName(username) && isPassword(password, eauth === 'jwt' ? maxToken : maxPassword);
}

/**
 * Whether a text can be a user name. Characters that end a field, a line or an option are not
 * allowed, because user names are looked up in files and by programs.
 */
function isUserName(name: unknown): name is string {
  return (
    typeof name === 'string' &&
    name.length > 0 &&
    name.length <= maxName &&
    name === name.trim() &&
    !name.startsWith('-') &&
    !control.test(name)
  );
}

function isPassword(password: unknown, maxLength: number): boolean {
  return (
    typeof password === 'string' &&
    password.length > 0 &&
    password.length <= maxLength &&
    !/[\0\r\n]|\p{Cs}/u.test(password)
  );
}
