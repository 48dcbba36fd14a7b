/* A control law that Condyle exported as C: void law(const double *q, const double *v, const double *t, double *u).
 *
 *     python -c "..." > law.c          (function.source("c", name="law"); see docs/software_in_the_loop.md)
 *     gcc -O2 -ffp-contract=off -o exported examples/external/exported.c law.c -lm
 *     condyle serve ur3 --seconds 5 -o run.cdl &
 *     ./exported robot
 */
#include "condyle_link.h"

void law(const double *q, const double *v, const double *t, double *u);

int main(int count, char **words)
{
    struct condyle_link link;
    if (condyle_connect(&link, count > 1 ? words[1] : "robot", 10.0)) {
        fprintf(stderr, "%s\n", link.message);
        return 1;
    }
    const double *q = condyle_signal(&link, "q"), *v = condyle_signal(&link, "v");
    double *u = condyle_command(&link, "effort");
    int over = -1;
    if (q && v && u) {
        while ((over = condyle_receive(&link)) > 0) {
            law(q, v, &link.time, u);
            condyle_send(&link);
        }
        printf("%s\n", link.message);
    }
    condyle_close(&link, "it needs the command effort");
    return over ? 1 : 0;
}
